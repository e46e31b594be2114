"""What a lane may be set to."""

import re

import msgspec
import pytest

from actors.messages.lane import Capability, ThinkTags
from actors.messages.secret import Secret
from transports.backends import LaneKind, LaneSettings


def settings(**changes: object) -> LaneSettings:
    return LaneSettings(**{"name": "main", "base_url": "http://h:1/v1", "model": "m", **changes})


@pytest.mark.parametrize(
    ("base", "url", "shown"),
    [
        ("http://h:1/v1", "http://h:1/v1/chat/completions", "http://h:1/v1"),
        ("https://h/v1/", "https://h/v1/chat/completions", "https://h/v1/"),
        ("https://h/d?api-version=2", "https://h/d/chat/completions?api-version=2", "https://h/d"),
        ("https://u:p@h/v1", "https://u:p@h/v1/chat/completions", "https://h/v1"),
    ],
)
def test_urls(base, url, shown):
    assert settings(base_url=base).completions_url() == url
    assert settings(base_url=base).shown_url() == shown


@pytest.mark.parametrize(
    "changes",
    [
        {"name": ""},
        {"model": ""},
        {"base_url": None},
        {"base_url": "h:1/v1"},
        {"base_url": "ftp://h"},
        {"base_url": "http:///v1"},
        {"base_url": "http://u:p@h/v1", "api_key": Secret("k")},
    ],
)
def test_a_wrong_setting_is_refused_in_words(changes):
    with pytest.raises(ValueError, match=r"name|model|base_url"):
        settings(**changes)
    plain = {**msgspec.to_builtins(settings()), **msgspec.to_builtins(changes)}
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(plain, LaneSettings)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"order": -1}, "order of lane main is -1; write 0 or more"),
        ({"context_window": 0}, "context_window of lane main is 0; write a number of tokens"),
        ({"chars_per_token": 0.0}, "chars_per_token of lane main is 0.0; write a number above 0"),
        ({"chars_per_token": float("nan")}, "chars_per_token of lane main is nan; write a number above 0"),
        ({"idle_timeout_s": -1.0}, "idle_timeout_s of lane main is -1.0; write seconds above 0"),
        ({"connect_timeout_s": float("inf")}, "connect_timeout_s of lane main is inf; write seconds above 0"),
        ({"trailing_s": 0.0}, "trailing_s of lane main is 0.0; write seconds above 0"),
        ({"keepalive_s": 0.0}, "keepalive_s of lane main is 0.0; write seconds above 0"),
        ({"max_streams": 0}, "max_streams of lane main is 0; write 1 or more"),
        ({"max_event_bytes": 0}, "max_event_bytes of lane main is 0; write bytes above 0"),
        ({"echo_delay_s": -0.1}, "echo_delay_s of lane main is -0.1; write 0 or more"),
        (
            {"retryable": ("429 please",)},
            "retryable of lane main has '429 please'; write names of error classes",
        ),
    ],
)
def test_an_amount_that_makes_no_sense_is_refused_with_what_to_write(changes, said):
    with pytest.raises(ValueError, match="^" + re.escape(said)):
        settings(**changes)


def test_what_others_know_of_a_lane_is_what_was_set():
    said = {
        "order": 2,
        "retryable": ("BadRequest",),
        "context_window": 128_000,
        "chars_per_token": 3.5,
        "think_tags": ThinkTags.ANYWHERE,
        "hold_back": True,
    }
    traits = settings(**said).traits()
    assert {name: getattr(traits, name) for name in said} == {**said, "retryable": {"BadRequest"}}


def test_an_echo_needs_nothing():
    assert LaneSettings(name="echo", kind=LaneKind.ECHO).shown_url() is None


def test_the_key_comes_from_the_environment_or_the_settings():
    assert settings().key({"K": "x"}) is None
    assert settings(api_key=Secret("a")).key({}) == Secret("a")
    assert settings(api_key_env="K").key({"K": " b\n"}) == Secret("b")
    assert settings(api_key_env="K").key({"K": " "}) is None
    assert not settings().lacks_key({})
    assert settings(api_key_env="K").lacks_key({})
    assert not settings(api_key_env="K").lacks_key({"K": "b"})


def test_settings_do_not_show_their_key():
    assert "CANARY" not in repr(settings(api_key=Secret("CANARY")))


def test_what_may_be_secret_of_a_lane():
    found = settings(base_url="https://me:p%40ss@h/v1?sig=CAN%2FARY&api-version=2", api_key=None).secrets({})
    assert {secret.value for secret in found} == {"me:p%40ss", "me:p@ss", "p%40ss", "p@ss", "CAN/ARY"}
    assert [s.value for s in settings(api_key_env="K").secrets({"K": " CANARY\n"})] == ["CANARY"]
    assert settings().secrets({}) == ()


def test_a_lane_takes_tools_unless_it_is_told_otherwise_and_the_echo_takes_all():
    assert settings().traits().capabilities == {Capability.TOOLS}
    assert settings(capabilities=frozenset()).traits().capabilities == frozenset()
    assert LaneSettings(name="e", kind=LaneKind.ECHO).traits().capabilities == frozenset(Capability)
    assert (settings().traits().backend, LaneSettings(name="e", kind=LaneKind.ECHO).traits().backend) == (
        "http://h:1/v1", "echo",
    )  # fmt: skip
