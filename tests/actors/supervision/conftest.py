"""Each test runs on each loop."""

from tests.loops import pytest_asyncio_loop_factories, pytest_runtest_setup

__all__ = ["pytest_asyncio_loop_factories", "pytest_runtest_setup"]
