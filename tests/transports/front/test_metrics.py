"""/metrics as a scraper reads it: parsed by the parser of the people who made the format."""

import hashlib
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from actors.messages.lane import FailureClass
from actors.messages.lifecycle import DeadLetterReason, Suspend
from actors.messages.metrics import AttemptMeasured, Outcome
from actors.messages.rows import KeyScope
from actors.messages.store import PutKey, RevokeKey
from actors.metrics.tally import MAX_LANES
from tests.callbacks import metered
from tests.transports.front.box import HEADERS, FrontBox

# The one library that only a scrape loads.
parser = pytest.importorskip("prometheus_client.parser")
openmetrics = pytest.importorskip("prometheus_client.openmetrics.parser")

OBSERVER = "tk_observer"
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


class Scraper:
    """Reads a front's metrics with an observer's key."""

    def __init__(self, box: FrontBox, client: aiohttp.ClientSession) -> None:
        self.box = box
        self.client = client

    async def get(self, token: str | None = OBSERVER, **headers: str) -> tuple[int, str, str]:
        shown = {"Authorization": f"Bearer {token}"} if token is not None else {}
        async with self.client.get(f"{self.box.url}/metrics", headers={**shown, **headers}) as response:
            return response.status, response.headers["content-type"], await response.text()

    async def samples(self) -> Samples:
        status, _, text = await self.get()
        assert status == 200, text
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in parser.text_string_to_metric_families(text)
            for sample in family.samples
        }


@pytest.fixture
async def scraper(tmp_path: Path) -> Any:
    async with FrontBox(tmp_path) as box, aiohttp.ClientSession() as client:
        await box.ask(
            "/store",
            PutKey(
                key_id="k2",
                name="observer",
                owner="observer",
                scopes=(KeyScope.OBSERVE,),
                key_hash=hashlib.sha256(OBSERVER.encode()).hexdigest(),
                at=box.system.clock.wall(),
            ),
        )
        yield Scraper(box, client)


def tell(box: FrontBox, lane: str, outcome: Any, **fields: Any) -> None:
    box.at("/metrics").tell(AttemptMeasured(lane=lane, outcome=outcome, **fields))


async def test_attempts_are_shown_by_lane_and_outcome(scraper: Scraper) -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 3}
    tell(scraper.box, "big", Outcome.COMPLETED, first_token_s=0.3, usage=usage)
    tell(scraper.box, "big", Outcome.COMPLETED, first_token_s=400.0, usage=usage, estimated=True)
    tell(scraper.box, "big", FailureClass.STALLED, first_token_s=0.3)
    tell(scraper.box, 'odd "name"\n', FailureClass.CONNECT)
    samples = await scraper.samples()
    big, odd = ("lane", "big"), ("lane", 'odd "name"\n')
    assert samples["turnkeep_attempts_total", (big, ("outcome", "completed"))] == 2
    assert samples["turnkeep_attempts_total", (big, ("outcome", "stalled"))] == 1
    assert samples["turnkeep_attempts_total", (odd, ("outcome", "connect"))] == 1
    assert samples["turnkeep_stalls_total", (big,)] == 1 and samples["turnkeep_stalls_total", (odd,)] == 0
    assert samples["turnkeep_first_token_seconds_count", (big,)] == 3
    assert samples["turnkeep_first_token_seconds_sum", (big,)] == pytest.approx(400.6)
    bucket = "turnkeep_first_token_seconds_bucket"
    for bound, count in (("0.25", 0), ("0.5", 2), ("120.0", 2), ("+Inf", 3)):
        assert samples[bucket, (big, ("le", bound))] == count
    for estimated in ("false", "true"):
        labels = (("estimated", estimated), ("kind", "prompt"), big)
        assert samples["turnkeep_tokens_total", labels] == 10


async def test_the_runtime_is_shown(scraper: Scraper) -> None:
    box = scraper.box
    box.system.dead_letters.add("/x", "Note", DeadLetterReason.OVERFLOW)
    box.system.lag.add(0.02)
    await box.ask("/sessions", Suspend())
    box.at("/sessions").tell(AttemptMeasured(lane="x", outcome=Outcome.STOPPED))
    # The first look sees that it waits, the second for how long.
    await scraper.samples()
    samples = await scraper.samples()
    states = {labels: value for (name, labels), value in samples.items() if name == "turnkeep_actors"}
    assert states[(("state", "suspended"),)] == 1
    assert sum(states.values()) == len(box.system.actors())
    assert samples["turnkeep_mailbox_depth", (("queue", "ordinary"),)] >= 1
    assert samples["turnkeep_mailbox_oldest_seconds", ()] > 0
    assert samples["turnkeep_dead_letters_total", (("reason", "overflow"),)] == 1
    assert samples["turnkeep_loop_lag_seconds_bucket", (("le", "0.025"),)] == 1
    assert samples["turnkeep_loop_lag_seconds_bucket", (("le", "0.01"),)] == 0
    assert samples["turnkeep_store_commits_total", ()] >= 2
    assert samples["turnkeep_store_writes_total", ()] >= 2
    assert samples["turnkeep_store_bytes", ()] > 4096


async def test_adm_10_names_and_labels_follow_the_conventions(scraper: Scraper) -> None:
    tell(scraper.box, "big", Outcome.COMPLETED, first_token_s=0.3, usage={"prompt_tokens": 10})
    _, _, text = await scraper.get()
    families = list(parser.text_string_to_metric_families(text))
    assert len(families) == len({family.name for family in families}) >= 12
    for family in families:
        assert family.name.startswith("turnkeep_") and family.documentation.endswith(".")
        assert family.type in ("counter", "gauge", "histogram")
        # A unit is a base unit, and the last word.
        assert not family.name.endswith(("_ms", "_total", "_count", "_sum", "_kib"))
        if family.type == "counter":
            assert all(sample.name == f"{family.name}_total" for sample in family.samples)
        known = {"lane", "outcome", "kind", "estimated", "state", "queue", "reason", "le"}
        assert all(set(sample.labels) <= known for sample in family.samples)


async def test_a_scraper_gets_the_format_that_it_prefers(scraper: Scraper) -> None:
    tell(scraper.box, "big", Outcome.COMPLETED, first_token_s=0.3)
    status, kind, text = await scraper.get(Accept="application/openmetrics-text; version=1.0.0")
    assert status == 200 and kind.startswith("application/openmetrics-text") and text.endswith("# EOF\n")
    assert len(list(openmetrics.text_string_to_metric_families(text))) >= 12
    assert (await scraper.get())[1].startswith("text/plain")


async def test_rel_5_a_scrape_of_many_lanes_does_not_hold_the_loop(scraper: Scraper) -> None:
    for lane in range(MAX_LANES):
        for outcome in (*Outcome, *FailureClass):
            tell(scraper.box, f"lane-{lane}", outcome, first_token_s=0.3, usage={"prompt_tokens": 1})
        await scraper.box.system.idle()
    with metered() as meter:
        status, _, text = await scraper.get()
    assert status == 200 and len(text) > 200_000
    assert meter.over(0.05) == []


@pytest.mark.parametrize("token", [None, "tk_nobody", HEADERS["Authorization"].removeprefix("Bearer ")])
async def test_without_the_observe_scope_nothing_is_said(scraper: Scraper, token: str | None) -> None:
    tell(scraper.box, "secret-lane", Outcome.COMPLETED)
    status, kind, text = await scraper.get(token)
    assert status == 401 and kind == "application/json"
    assert "turnkeep_" not in text and "secret-lane" not in text


async def test_while_the_store_is_away_who_was_let_in_before_still_sees_the_rest(scraper: Scraper) -> None:
    assert (await scraper.get())[0] == 200
    await scraper.box.ask("/store", Suspend())
    samples = await scraper.samples()
    assert ("turnkeep_store_commits_total", ()) not in samples
    assert samples["turnkeep_mailbox_depth", (("queue", "ordinary"),)] >= 1
    assert (await scraper.get("tk_nobody"))[0] == 503


async def test_a_key_that_was_revoked_is_not_let_in_when_the_store_is_away(scraper: Scraper) -> None:
    assert (await scraper.get())[0] == 200
    await scraper.box.ask("/store", RevokeKey(key="k2", at=scraper.box.system.clock.wall()))
    assert (await scraper.get())[0] == 401
    await scraper.box.ask("/store", Suspend())
    assert (await scraper.get())[0] == 503


async def test_without_the_counting_actor_the_rest_is_shown(scraper: Scraper) -> None:
    await scraper.box.ask("/metrics", Suspend())
    samples = await scraper.samples()
    assert not any(name.startswith("turnkeep_attempts") for name, _ in samples)
    assert ("turnkeep_store_bytes", ()) in samples
