"""What holds for all session keys; the worked examples are in tests/acceptance/test_key.py."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.messages.inbound import Source
from actors.session.key import KeyRules, session_key

quick = settings(max_examples=150, deadline=None)

ids = st.text(st.characters(codec="utf-8", exclude_characters=":"), min_size=1, max_size=8)
maybe = st.none() | ids
platforms = st.sampled_from(["discord", "telegram", "slack", "signal", "matrix"])
shared_types = st.sampled_from(["group", "channel", "thread", "forum", "a_newer_kind"])
rules = st.builds(KeyRules, group_sessions_per_user=st.booleans(), thread_sessions_per_user=st.booleans())


def sources(chat_types: st.SearchStrategy[str]) -> st.SearchStrategy[Source]:
    return st.builds(
        Source,
        platform=platforms,
        chat_id=st.just("") | ids,
        chat_type=chat_types,
        user_id=maybe,
        user_id_alt=maybe,
        thread_id=maybe,
        prospective_thread_id=maybe,
        scope_id=maybe,
        profile=maybe,
    )


def with_changes(source: Source, **changes: object) -> Source:
    return Source(**{field: getattr(source, field) for field in source.__struct_fields__} | changes)


@quick
@given(sources(st.just("dm") | shared_types), rules)
def test_a_key_has_its_first_parts_and_no_empty_one(source: Source, rules: KeyRules) -> None:
    agent, namespace, platform, chat_type, *slots = session_key(source, rules).split(":")
    assert (agent, platform) == ("agent", source.platform)
    assert namespace == ("main" if source.profile in (None, "default") else source.profile)
    assert chat_type in (source.chat_type, "thread")
    assert all(slots)
    assert len(slots) <= 4


@quick
@given(sources(st.just("dm") | shared_types), rules, ids, ids)
def test_what_is_not_part_of_the_key_does_not_change_it(
    source: Source, rules: KeyRules, one: str, other: str
) -> None:
    changed = with_changes(source, chat_name=one, user_name=other, message_id=one, chat_topic=other)
    assert session_key(changed, rules) == session_key(source, rules)


@quick
@given(sources(st.just("dm")), rules, rules)
def test_rules_are_for_shared_chats_only(source: Source, one: KeyRules, other: KeyRules) -> None:
    assert session_key(source, one) == session_key(source, other)


@quick
@given(sources(shared_types), ids, ids)
def test_in_a_shared_chat_a_session_is_per_user_or_not(source: Source, one: str, other: str) -> None:
    source = with_changes(source, user_id_alt=None)
    first, second = with_changes(source, user_id=one), with_changes(source, user_id=other)
    everybody = KeyRules(group_sessions_per_user=False, thread_sessions_per_user=True)
    each = KeyRules(thread_sessions_per_user=True)
    assert session_key(first, everybody) == session_key(second, everybody)
    assert (session_key(first, each) == session_key(second, each)) == (one == other)


@quick
@given(sources(shared_types), ids, rules)
def test_a_real_thread_wins_over_a_prospective_one(source: Source, thread: str, rules: KeyRules) -> None:
    inside = with_changes(source, thread_id=thread)
    assert session_key(inside, rules) == session_key(with_changes(inside, prospective_thread_id=None), rules)


@quick
@given(sources(st.just("dm") | shared_types), rules)
def test_only_slack_keys_carry_a_scope(source: Source, rules: KeyRules) -> None:
    without = session_key(with_changes(source, scope_id=None), rules)
    if source.platform == "slack" and source.scope_id:
        assert session_key(source, rules) != without
    else:
        assert session_key(source, rules) == without


@pytest.mark.parametrize("profile", [None, "", "default"])
def test_the_default_profile_is_main(profile: str | None) -> None:
    source = Source(platform="telegram", chat_id="99", profile=profile)
    assert session_key(source, KeyRules()) == "agent:main:telegram:dm:99"


def test_without_chat_and_participant_a_thread_alone_names_a_direct_message() -> None:
    source = Source(platform="telegram", thread_id="5")
    assert session_key(source, KeyRules()) == "agent:main:telegram:dm:5"


@pytest.mark.parametrize("written", ["+60123", "60123", "60123@s.whatsapp.net", "60123:47@s.whatsapp.net"])
def test_whatsapp_writes_one_person_in_several_ways(written: str) -> None:
    private = Source(platform="whatsapp", chat_id=written)
    in_group = Source(platform="whatsapp", chat_type="group", chat_id="1-2@g.us", user_id=written)
    assert session_key(private, KeyRules()) == "agent:main:whatsapp:dm:60123"
    assert session_key(in_group, KeyRules()) == "agent:main:whatsapp:group:1-2@g.us:60123"


def test_a_whatsapp_id_that_is_all_decoration_is_kept_for_a_participant() -> None:
    source = Source(platform="whatsapp", chat_id="@lid", user_id="@lid")
    assert session_key(source, KeyRules()) == "agent:main:whatsapp:dm:@lid"
