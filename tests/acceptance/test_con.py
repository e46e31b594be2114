"""CON: relay clients that nobody of this project wrote."""

import os
from pathlib import Path

import pytest

from tests.clients import relay_conformance


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(not relay_conformance.CLIENT_FILE.exists(), reason="the conformance client is not there")
async def test_con_1_published_clients_pass_their_black_box_scenarios(tmp_path):
    cache = Path(os.environ.get("TURNKEEP_CLIENTS", tmp_path / "clients"))
    assert await relay_conformance.run(relay_conformance.CLIENT_FILE, cache, tmp_path)
