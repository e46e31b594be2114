"""The real composition that real clients talk to."""

from tests.acceptance.conftest import backend, boot, turnkeep

__all__ = ["backend", "boot", "turnkeep"]
