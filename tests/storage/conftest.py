"""A store for every test; the contract tests run with each kind of database."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from storage import open_database
from tests import disk
from tests.storage.box import Opener, StoreBox

OPENERS: dict[str, Opener] = {"sqlite": open_database}


@pytest.fixture(params=OPENERS)
def opener(request: pytest.FixtureRequest) -> Opener:
    return OPENERS[request.param]


@pytest.fixture
async def store(tmp_path: Path, opener: Opener) -> AsyncIterator[StoreBox]:
    box = await StoreBox(tmp_path / "data", opener).open()
    yield box
    await box.close()


@pytest.fixture
def small_disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB."""
    if disk.ran_in_namespace(request):
        pytest.skip("passed, as root of a user namespace of its own")
    with disk.small_disk(tmp_path / "small") as path:
        yield path
