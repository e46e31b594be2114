"""What a lane may be set to."""

import msgspec
import pytest

from actors.messages.lane import Capability
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
