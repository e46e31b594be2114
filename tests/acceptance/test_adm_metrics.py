"""What attempts come to in /metrics, through the running daemon (ADM-10, REL-6)."""

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.daemon import Daemon
from tests.fakes.backend import FakeBackend
from tests.fakes.backend_script import Die, Finish, Hold, Reply, Role, Step, Text, Usage
from tests.harness import until
from tests.terminal import admin_call

parser = pytest.importorskip("prometheus_client.parser")

CANARY = "canary-7f3a"
CONFIG = """
[[lane]]
name = "small"
base_url = "{url}"
model = "{canary}-model"
api_key_env = "LANE_KEY"

[turn]
creation_tries = 2
retry_base_s = 0.0
"""


class Scraped:
    """A daemon, and what its metrics say."""

    def __init__(self, daemon: Daemon, client: aiohttp.ClientSession, observer: str) -> None:
        self.daemon = daemon
        self.client = client
        self._observer = {"Authorization": f"Bearer {observer}"}

    async def text(self) -> str:
        async with self.client.get(f"{self.daemon.url}/metrics", headers=self._observer) as response:
            assert response.status == 200
            return await response.text()

    async def values(self, name: str, label: str = "") -> dict[str, float]:
        """Return a metric's values by one of its labels, added up over the others."""
        found: dict[str, float] = {}
        for family in parser.text_string_to_metric_families(await self.text()):
            for sample in family.samples:
                if sample.name == name:
                    key = sample.labels.get(label, "")
                    found[key] = found.get(key, 0) + sample.value
        return found

    async def say(self, text: str = CANARY) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {self.daemon.api_key}", "X-Session-Id": f"{CANARY}-chat"}
        body = {"messages": [{"role": "user", "content": text}]}
        async with self.client.post(
            f"{self.daemon.url}/v1/chat/completions", json=body, headers=headers
        ) as response:
            return response.status, await response.json()


@pytest.fixture
async def scraped(tmp_path: Path, backend: FakeBackend, client: aiohttp.ClientSession) -> Any:
    config = CONFIG.format(url=backend.url, canary=CANARY)
    async with Daemon(tmp_path / "data", config=config, env={"LANE_KEY": f"sk-{CANARY}"}) as daemon:
        key = await admin_call(daemon, "keys.add", name=f"{CANARY}-key", scopes=["observe"])
        yield Scraped(daemon, client, key["secret"])


async def test_adm_10_each_attempt_is_counted_once_as_what_it_came_to(
    scraped: Scraped, backend: FakeBackend
) -> None:
    backend.script(Reply(503, {"error": {"message": CANARY}}))
    backend.script(Role(), Text("Hello"), Finish(), Usage(prompt=7, completion=11))
    assert (await scraped.say())[0] == 200
    backend.script(Reply(401, {"error": {"message": CANARY}}))
    assert (await scraped.say())[0] == 500
    assert await scraped.values("turnkeep_attempts_total", "outcome") == {
        "server_error": 1,
        "completed": 1,
        "auth_refused": 1,
    }
    assert await scraped.values("turnkeep_first_token_seconds_count", "lane") == {"small": 1}
    assert await scraped.values("turnkeep_tokens_total", "kind") == {"prompt": 7, "completion": 11}
    assert await scraped.values("turnkeep_tokens_total", "estimated") == {"false": 18}


@pytest.mark.parametrize(
    ("steps", "outcome"),
    [((Role(), Text("Hel"), Die("rst")), "incomplete"), ((Role(), Text("Hel"), Hold("never")), "stopped")],
)
async def test_adm_10_an_attempt_that_dies_or_is_stopped_has_its_own_outcome(
    scraped: Scraped, backend: FakeBackend, steps: tuple[Step, ...], outcome: str
) -> None:
    backend.script(*steps, times=3)
    asking = asyncio.ensure_future(scraped.say())
    await backend.request(0)
    if outcome == "stopped":
        await backend.gate("never").reached.wait()
        (row,) = (await admin_call(scraped.daemon, "sessions.list"))["sessions"]
        await admin_call(scraped.daemon, "sessions.stop_turn", session_id=row["session_id"])
    await asking

    async def counted() -> bool:
        return set(await scraped.values("turnkeep_attempts_total", "outcome")) == {outcome}

    await until(counted)


async def test_adm_10_every_attempt_of_a_turn_is_counted_and_an_estimate_is_told_as_one(
    scraped: Scraped, backend: FakeBackend
) -> None:
    backend.script(Role(), Text("Hel"), Die("rst"), times=2)
    # What was used is lost with the connection.
    backend.script(Role(), Text("Hello"), Finish(), Die("rst"))
    status, body = await scraped.say()
    assert status == 200 and body["choices"][0]["message"]["content"] == "Hello"
    assert await scraped.values("turnkeep_attempts_total", "outcome") == {"incomplete": 2, "completed": 1}
    assert await scraped.values("turnkeep_first_token_seconds_count", "lane") == {"small": 3}
    tokens = await scraped.values("turnkeep_tokens_total", "estimated")
    assert set(tokens) == {"true"} and tokens["true"] >= 1


async def test_rel_6_nothing_but_the_lanes_name_is_in_the_metrics(
    scraped: Scraped, backend: FakeBackend
) -> None:
    backend.script(Reply(400, {"error": {"message": f"{CANARY} sk-{CANARY}"}}))
    await scraped.say()
    await scraped.say()
    text = await scraped.text()
    assert 'lane="small"' in text and CANARY not in text
    assert backend.url not in text and scraped.daemon.api_key not in text


async def test_adm_10_the_daemon_shows_its_runtime(scraped: Scraped) -> None:
    async def came_round() -> bool:
        return (await scraped.values("turnkeep_loop_lag_seconds_count"))[""] >= 2

    await until(came_round)
    assert (await scraped.values("turnkeep_actors", "state"))["running"] > 8
    assert (await scraped.values("turnkeep_store_commits_total"))[""] > 0
