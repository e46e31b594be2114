"""A person's message as it came from a chat: the relay contract's event, without its wire form."""

import enum

import msgspec


class MessageType(enum.StrEnum):
    """What kind of message it is; one that is not known here counts as text."""

    TEXT = "text"
    LOCATION = "location"
    PHOTO = "photo"
    VIDEO = "video"
    AUDIO = "audio"
    VOICE = "voice"
    DOCUMENT = "document"
    STICKER = "sticker"
    COMMAND = "command"


class Source(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    Where a message came from. An absent id is None, never an empty text; only ``chat_id`` may be empty.

    The contract's trust marks have no field here: whoever trusts a message has to know why by itself.
    """

    platform: str
    chat_id: str = ""
    chat_type: str = "dm"
    """dm, group, channel, thread, forum, or what a newer connector calls it."""
    chat_name: str | None = None
    user_id: str | None = None
    user_name: str | None = None
    """The name for people: the display name if the connector told one."""
    thread_id: str | None = None
    chat_topic: str | None = None
    user_id_alt: str | None = None
    """The steadier one of two ids: it wins over ``user_id`` in session keys."""
    chat_id_alt: str | None = None
    scope_id: str | None = None
    """The guild, workspace or server."""
    parent_chat_id: str | None = None
    message_id: str | None = None
    profile: str | None = None
    auto_thread_created: bool = False
    auto_thread_initial_name: str | None = None
    prospective_thread_id: str | None = None
    """The thread that the answer will open, known before it exists."""


class ReplyTo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The message that is replied to, as far as the connector had it in hand."""

    text: str | None = None
    author: str | None = None
    is_own: bool | None = None
    """Whether it was the bot's own."""


class Media(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of one attachment; it belongs to the entry of ``media_urls`` with the same url."""

    url: str
    kind: str | None = None
    mime: str | None = None
    size: int | None = None
    """Bytes."""
    filename: str | None = None
    caption: str | None = None


class PromptResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The option that somebody chose of a prompt."""

    prompt_id: str
    option_id: str
    label: str | None = None
    prompt_message_id: str | None = None


class InboundEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message from a chat."""

    source: Source
    text: str = ""
    message_type: MessageType = MessageType.TEXT
    message_id: str | None = None
    """The platform's id, by which a repetition is recognised."""
    reply_to_message_id: str | None = None
    reply_to: ReplyTo | None = None
    media_urls: tuple[str, ...] = ()
    media: tuple[Media, ...] = ()
    context: tuple["InboundEvent", ...] = ()
    """Messages around this one, oldest first: for reference only, never a reason to answer."""
    context_error: bool = False
    """The connector can give context, but failed to this time."""
    prompt_response: PromptResponse | None = None
