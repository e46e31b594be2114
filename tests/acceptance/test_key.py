"""KEY-1 … KEY-6: every worked example of the session key. What a key is bound to is tested with the store."""

from typing import Any

import pytest

from actors.messages.inbound import Source
from actors.session.key import KeyRules, session_key


def key(rules: KeyRules | None = None, **source: Any) -> str:
    return session_key(Source(**source), rules or KeyRules())


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"chat_id": "99"}, "agent:main:telegram:dm:99"),
        ({"chat_id": "99", "thread_id": "5"}, "agent:main:telegram:dm:99:5"),
        ({"user_id": "7", "user_id_alt": "uu"}, "agent:main:telegram:dm:uu"),
        ({}, "agent:main:telegram:dm"),
    ],
)
def test_key_1_direct_messages(source: dict[str, Any], expected: str) -> None:
    assert key(platform="telegram", chat_type="dm", **source) == expected


def test_key_2_a_discord_group_keeps_its_guild_out() -> None:
    assert (
        key(platform="discord", chat_type="group", chat_id="C1", user_id="U1", scope_id="G1")
        == "agent:main:discord:group:C1:U1"
    )


def test_key_2_the_alternative_user_id_wins() -> None:
    assert (
        key(platform="signal", chat_type="group", chat_id="C1", user_id="U1", user_id_alt="uuid-1")
        == "agent:main:signal:group:C1:uuid-1"
    )


@pytest.mark.parametrize(
    ("rules", "user_id"), [(KeyRules(group_sessions_per_user=False), "U1"), (KeyRules(), None)]
)
def test_key_2_a_group_shares_one_session_if_told_so_or_without_a_user(
    rules: KeyRules, user_id: str | None
) -> None:
    assert (
        key(rules, platform="discord", chat_type="group", chat_id="C1", user_id=user_id)
        == "agent:main:discord:group:C1"
    )


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"chat_type": "channel", "chat_id": "C1", "user_id": "U1"}, "agent:main:slack:channel:C1:U1"),
        (
            {"chat_type": "channel", "chat_id": "C1", "user_id": "U1", "scope_id": "T1"},
            "agent:main:slack:channel:T1:C1:U1",
        ),
        ({"chat_type": "dm", "chat_id": "D1", "scope_id": "T1"}, "agent:main:slack:dm:T1:D1"),
    ],
)
def test_key_3_slack_keys_carry_the_workspace(source: dict[str, Any], expected: str) -> None:
    assert key(platform="slack", **source) == expected


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (KeyRules(), "agent:main:discord:thread:T9:T9"),
        (KeyRules(thread_sessions_per_user=True), "agent:main:discord:thread:T9:T9:U1"),
    ],
)
def test_key_4_a_thread_is_shared_unless_told_otherwise(rules: KeyRules, expected: str) -> None:
    assert (
        key(rules, platform="discord", chat_type="thread", chat_id="T9", thread_id="T9", user_id="U1")
        == expected
    )


def test_key_4_a_forum_topic_is_a_thread() -> None:
    assert (
        key(platform="telegram", chat_type="forum", chat_id="-100", thread_id="12", user_id="U1")
        == "agent:main:telegram:forum:-100:12"
    )


def test_key_5_the_message_that_opens_a_thread_and_its_followers_share_a_key() -> None:
    opening = key(
        platform="discord", chat_type="group", chat_id="C1", user_id="U1", prospective_thread_id="M5"
    )
    follower = key(platform="discord", chat_type="thread", chat_id="C1", user_id="U2", thread_id="M5")
    assert opening == follower == "agent:main:discord:thread:C1:M5"


def test_key_6_profile_names_the_namespace() -> None:
    assert (
        key(platform="discord", chat_type="group", chat_id="C1", user_id="U1", profile="coder")
        == "agent:coder:discord:group:C1:U1"
    )
