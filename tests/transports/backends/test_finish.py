"""Why an answer ends, in our words."""

import pytest

from transports.backends.finish import finish_reason


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("stop", "stop"),
        ("eos_token", "stop"),
        ("END_TURN", "stop"),
        ("length", "length"),
        ("MAX_TOKENS", "length"),
        ("tool_calls", "tool_calls"),
        ("tool_use", "tool_calls"),
        ("function_call", "tool_calls"),
        ("content_filter", "content_filter"),
        ("SAFETY", "content_filter"),
        # Nobody knows these: the answer may be cut off.
        ("abort", "length"),
        ("sk-0123456789abcdef", "length"),
        ("stop because", "length"),
    ],
)
def test_a_backends_word_becomes_one_that_clients_know(word, reason):
    assert finish_reason(word) == reason
