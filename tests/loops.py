"""
The loops on which tests of the runtime run: whatever the loop and its task factory, actors behave the same.

A directory takes part by importing both hooks into its conftest.
"""

import asyncio
import sys
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import uvloop

HAS_EAGER_TASKS = sys.version_info >= (3, 12)


def eager() -> asyncio.AbstractEventLoop:
    """Make a loop whose tasks begin inside the call that makes them."""
    loop = asyncio.new_event_loop()
    loop.set_task_factory(asyncio.eager_task_factory)
    return loop


LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop, "eager": eager}


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], Any]]:
    """Run each asynchronous test on each loop."""
    return LOOPS


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what this Python cannot do."""
    callspec = getattr(item, "callspec", None)
    if not HAS_EAGER_TASKS and callspec is not None and eager in callspec.params.values():
        pytest.skip("eager tasks came with Python 3.12")
