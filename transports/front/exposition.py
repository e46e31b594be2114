"""The names and the text of /metrics (ADM-10): pure."""

from collections.abc import Iterator
from itertools import accumulate
from math import isinf
from typing import Any

import msgspec
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder

from actors.messages.lane import FailureClass
from actors.messages.metrics import Histogram, LaneMeasures
from actors.runtime import Census


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """Everything as it was at one moment. What could not be had in time is None, and left out."""

    lanes: tuple[LaneMeasures, ...] | None
    census: Census
    dead_letters: dict[str, int]
    lag: Histogram
    store: dict[str, Any] | None


def expose(reading: Reading, accept: str) -> tuple[bytes, str]:
    """Return body and content type, in the format that ``accept``, a request's header, prefers."""
    encode, content_type = choose_encoder(accept)
    families: Any = _Families(reading)
    return encode(families), content_type


class _Families:
    """What an encoder asks for the families, in the place of a registry: nothing outlives the reading."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def collect(self) -> Iterator[Metric]:
        """Yield each family with its values."""
        if self._reading.lanes is not None:
            yield from _lanes(self._reading.lanes)
        yield from _runtime(self._reading)
        if self._reading.store is not None:
            yield from _store(self._reading.store)


def _lanes(lanes: tuple[LaneMeasures, ...]) -> Iterator[Metric]:
    attempts = CounterMetricFamily(
        "turnkeep_attempts",
        "Requests to a lane that are over, by how they ended.",
        labels=("lane", "outcome"),
    )
    stalls = CounterMetricFamily(
        "turnkeep_stalls", "Streams of a lane that stayed open and silent for too long.", labels=("lane",)
    )
    first_token = HistogramMetricFamily(
        "turnkeep_first_token_seconds",
        "From the request to the first piece of the answer or its reasoning.",
        labels=("lane",),
    )
    tokens = CounterMetricFamily(
        "turnkeep_tokens",
        "Tokens of completed attempts; estimated where the backend did not say.",
        labels=("lane", "kind", "estimated"),
    )
    for lane in lanes:
        for outcome, count in lane.attempts.items():
            attempts.add_metric((lane.lane, outcome), count)
        stalls.add_metric((lane.lane,), lane.attempts.get(FailureClass.STALLED, 0))
        _add(first_token, (lane.lane,), lane.first_token)
        for (kind, estimated), count in lane.tokens.items():
            tokens.add_metric((lane.lane, kind, "true" if estimated else "false"), count)
    yield from (attempts, stalls, first_token, tokens)


def _runtime(reading: Reading) -> Iterator[Metric]:
    actors = GaugeMetricFamily("turnkeep_actors", "Actors that live or are held.", labels=("state",))
    for status, count in reading.census.states.items():
        actors.add_metric((status.name.lower(),), count)
    depth = GaugeMetricFamily(
        "turnkeep_mailbox_depth", "Messages that wait, of all actors together.", labels=("queue",)
    )
    depth.add_metric(("control",), reading.census.control_depth)
    depth.add_metric(("ordinary",), reading.census.ordinary_depth)
    letters = CounterMetricFamily(
        "turnkeep_dead_letters", "Messages that nobody handled.", labels=("reason",)
    )
    for reason, count in reading.dead_letters.items():
        letters.add_metric((reason,), count)
    lag = HistogramMetricFamily(
        "turnkeep_loop_lag_seconds",
        "How long the event loop took to come round, looked at four times a second.",
    )
    _add(lag, (), reading.lag)
    yield actors
    yield depth
    yield GaugeMetricFamily(
        "turnkeep_mailbox_oldest_seconds",
        "For how long the message that has waited longest was seen waiting.",
        reading.census.oldest_s,
    )
    yield letters
    yield lag


def _store(store: dict[str, Any]) -> Iterator[Metric]:
    yield CounterMetricFamily("turnkeep_store_commits", "Transactions that wrote.", store["commits"])
    yield CounterMetricFamily("turnkeep_store_writes", "Writes in these transactions.", store["writes"])
    yield GaugeMetricFamily("turnkeep_store_bytes", "Size of the database and its log.", store["bytes"])


def _add(family: HistogramMetricFamily, labels: tuple[str, ...], histogram: Histogram) -> None:
    counts = accumulate(histogram.counts)
    buckets = [
        ("+Inf" if isinf(bound) else str(bound), float(count))
        for bound, count in zip(histogram.bounds, counts, strict=True)
    ]
    family.add_metric(labels, buckets, histogram.total)
