"""The session key of a chat: which messages belong to one conversation (KEY-1 … KEY-6)."""

import msgspec

from actors.messages.inbound import Source


class KeyRules(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the people of one chat share a session."""

    group_sessions_per_user: bool = True
    """Each participant of a group, channel or forum has their own."""
    thread_sessions_per_user: bool = False
    """So has each participant of a thread; it takes ``group_sessions_per_user``, too."""


def session_key(source: Source, rules: KeyRules) -> str:
    """
    Return ``agent:<ns>:<platform>:<chat_type>[:<scope>][:<chat>][:<thread>][:<user>]``.

    Part by part the same key as a Hermes gateway computes, so that both name a conversation alike. It is unique only
    together with peer and scope: platforms' ids may contain colons, and a guild is not part of it.
    """
    slots = _private_slots(source) if source.chat_type == "dm" else _shared_slots(source, rules)
    return ":".join(["agent", _namespace(source.profile), source.platform, *filter(None, slots)])


def _namespace(profile: str | None) -> str:
    return profile if profile and profile != "default" else "main"


def _private_slots(source: Source) -> list[str | None]:
    # Without a chat, people who write to the bot must not end up in one session: each one's id stands for the chat.
    chat = _person(source, source.chat_id) or _participant(source)
    return ["dm", _scope(source), chat, source.thread_id]


def _shared_slots(source: Source, rules: KeyRules) -> list[str | None]:
    thread = source.thread_id or source.prospective_thread_id
    # The message that opens a thread stands outside it; its followers come from within, as chat type thread.
    opens_thread = bool(thread) and not source.thread_id
    per_user = rules.group_sessions_per_user and (not thread or rules.thread_sessions_per_user)
    return [
        "thread" if opens_thread else source.chat_type,
        _scope(source),
        source.chat_id,
        thread,
        _participant(source) if per_user else None,
    ]


def _scope(source: Source) -> str | None:
    return source.scope_id if source.platform == "slack" else None


def _participant(source: Source) -> str | None:
    someone = source.user_id_alt or source.user_id
    return _person(source, someone) or someone


def _person(source: Source, someone: str | None) -> str | None:
    # WhatsApp writes one person as +601, 601:47@s.whatsapp.net or 601@lid, and changes between these.
    if someone is None or source.platform != "whatsapp":
        return someone
    return someone.strip().replace("+", "", 1).partition(":")[0].partition("@")[0]
