"""A system on the test's own loop, and budgets on its clock."""

from collections.abc import AsyncIterator, Callable

import pytest

from actors.runtime import Budget, System


@pytest.fixture
async def system() -> AsyncIterator[System]:
    made = System(stop_seconds=2.0)
    yield made
    for info in made.actors():
        ref = made.find(info.path)
        if ref is not None and info.parent is None:
            await made.stop(ref, Budget.of(made.clock, 2.0))


@pytest.fixture
def within(system: System) -> Callable[[float], Budget]:
    return lambda seconds: Budget.of(system.clock, seconds)
