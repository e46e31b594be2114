"""What looks like a secret does not reach a log."""

import pytest

from actors.messages.secret import Secret
from transports.backends.redaction import redact


@pytest.mark.parametrize(
    "text",
    [
        "http://user:CANARY@host/v1 refused",
        "http://host/v1?api_key=CANARY&x=1",
        'Authorization: Bearer CANARY, "x"',
        "Incorrect API key provided: sk-CANARY-123456",
        "cannot reach postgres://CANARY/db",
        '{"api_key": "CANARY"}',
        "token=CANARY",
    ],
)
def test_a_secret_is_taken_out(text):
    assert "CANARY" not in redact(text, ())


def test_known_secrets_are_taken_out_by_value():
    assert redact("xCANARYx", [Secret("CANARY"), Secret("")]) == "x…x"


def test_ordinary_text_stays():
    text = "The model gpt-x does not exist; ask-me-anything at https://example.org/a@b."
    assert redact(text, ()) == text


def test_it_is_bounded():
    assert len(redact("x " * 100_000, ())) == 2000
