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
        "https://host:8080/v1?key=CANARY",
        "http://user:a/CANARY/b@host/v1",
        "redis://:CANARY@h mysql://u:CANARY@h",
        "Authorization: Basic CANARY==",
        "authorization: CANARY",
        r'{"text": "{\"api_key\": \"CANARY\"}"}',
        r'{"text": "{\\\"password\\\": \\\"CANARY\\\"}"}',
        r'{"content": "postgres://u:CANARY@db/x\nand more"}',
        "passwd: CANARY",
    ],
)
def test_a_secret_is_taken_out(text):
    assert "CANARY" not in redact(text, ())


def test_known_secrets_are_taken_out_by_value():
    assert redact("xCANARYx", [Secret("CANARY"), Secret("")]) == "x…x"


def test_a_known_secret_is_known_in_json_too():
    assert "N\\" not in redact(r'{"text": "CAN\"ARY"}', [Secret('CAN"ARY')])
    assert redact("abcd abc", [Secret("abc"), Secret("abcd")]) == "… …"


def test_a_secret_that_the_end_cuts_is_taken_out():
    text = "x" * 1980 + " http://user:CANARYCANARY@host"
    assert "CANARY" not in redact(text, ())


def test_ordinary_text_stays():
    text = "The model gpt-x does not exist; ask-me-anything at https://example.org/a@b."
    assert redact(text, ()) == text


def test_it_is_bounded():
    assert len(redact("x " * 100_000, ())) == 2000
    assert len(redact("x " * 100_000, (), 50_000)) == 50_000
