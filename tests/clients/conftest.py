"""The real composition that real clients talk to."""

from tests.acceptance.conftest import turnkeep

__all__ = ["turnkeep"]
