"""The fixtures of the acceptance tests."""

from tests.acceptance.conftest import backend, boot, client, turnkeep

__all__ = ["backend", "boot", "client", "turnkeep"]
