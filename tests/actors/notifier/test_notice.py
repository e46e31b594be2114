"""CHAT-1's sentences."""

import pytest

from actors.notifier.notice import Cause, notice


@pytest.mark.parametrize("cause", list(Cause))
def test_chat_1_every_cause_has_a_plain_sentence_with_what_to_do(cause):
    text = notice(cause)
    assert text.endswith("Your message is kept; send it again to have it answered.")
    assert not any(mark in text for mark in ("Error", "Exception", "Traceback", "actors.", "\n"))
