"""The fixtures of the acceptance tests."""

from tests.acceptance.conftest import client, turnkeep

__all__ = ["client", "turnkeep"]
