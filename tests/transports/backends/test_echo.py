"""The lane that says what it was told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.messages.lane import FailureClass, StreamArmed, StreamDelta, StreamFinished
from actors.messages.rows import Entry
from tests.clock import StillClock
from tests.transports.backends.conftest import Asker, failure_of, text_of
from transports.backends import LaneKind, LaneSettings, ModelLane
from transports.backends.echo import ADVICE, MOST_PIECES, answer, pieces


def user(text: str) -> Entry:
    return Entry(role="user", content=text)


def assistant(text: str) -> Entry:
    return Entry(role="assistant", content=text)


def echo_lane(system, **changes) -> Asker:
    settings = LaneSettings(name="echo", kind=LaneKind.ECHO, **{"echo_delay_s": 0, **changes})
    return Asker(system, system.spawn("/lanes-echo", lambda: ModelLane(settings, 1)))


@given(st.text())
def test_pieces_are_the_text(text):
    assert "".join(pieces(text)) == text
    assert all(pieces(text))


def test_pieces_are_words_and_never_too_many():
    assert pieces("one two\n three") == ["one ", "two\n ", "three"]
    assert len(pieces("w " * 100_000)) <= MOST_PIECES


def test_it_answers_the_last_user_message():
    assert answer((user("a"), assistant("b"), user("c"))) == "Echo: c"


@pytest.mark.parametrize("entries", [(user("a"),), ()])
def test_the_first_answer_says_what_to_set(entries):
    assert answer(entries).endswith(ADVICE)
    assert "base_url" in ADVICE


async def test_it_streams_word_by_word(system):
    asker = echo_lane(system)
    asker.open((user("a"), assistant("b"), user("one two")))
    messages = await asker.until_end()
    assert isinstance(messages[0], StreamArmed)
    assert [m.text for m in messages if isinstance(m, StreamDelta)] == ["Echo: ", "one ", "two"]
    end = messages[-1]
    assert isinstance(end, StreamFinished)
    assert end.finish_reason == "stop"
    assert end.usage == {"prompt_tokens": 4, "completion_tokens": 3, "total_tokens": 7}


async def test_a_very_long_message_fits_a_mailbox(system):
    text = "word " * 50_000
    messages = await echo_lane(system).ask(text)
    assert text_of(messages) == "Echo: " + text + ADVICE


async def test_it_describes_itself(system):
    info = await echo_lane(system).describe()
    assert (info.name, info.kind, info.base_url, info.streams) == ("echo", "echo", None, 0)


class TestWithDelay:
    @pytest.fixture
    def clock(self):
        return StillClock()

    async def test_it_waits_after_each_word(self, system, clock):
        asker = echo_lane(system, echo_delay_s=0.5)
        asker.open("one")
        assert isinstance(await asker.next(), StreamArmed)
        assert text_of([await asker.next()]) == "Echo: "
        clock.advance(0.5)
        assert text_of([await asker.next()]).startswith("one")

    async def test_cancel_ends_it_in_mid_word(self, system):
        asker = echo_lane(system, echo_delay_s=0.5)
        asker.cancel(asker.open("one"))
        asker.cancel(asker.open("two"))
        await asker.until_idle()
        assert (await asker.describe()).streams == 0

    async def test_its_budget_ends_it(self, system, clock):
        asker = echo_lane(system, echo_delay_s=2)
        asker.open("one", budget=asker.within(1))
        await asker.next()
        await asker.next()
        clock.advance(1)
        failed = failure_of(await asker.until_end())
        assert (failed.failure, failed.error_class) == (FailureClass.TIMEOUT, "DeadlineExceeded")

    async def test_a_budget_that_is_over_opens_nothing(self, system):
        asker = echo_lane(system, echo_delay_s=2)
        [failed] = await asker.ask("one", budget=asker.within(0))
        assert failed.failure is FailureClass.TIMEOUT
