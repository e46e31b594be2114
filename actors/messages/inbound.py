"""A user's message as a chat platform normalises it (relay.md, section 2)."""

import enum

import msgspec


class MessageType(enum.StrEnum):
    """What a message is; an unknown type is read as text."""

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
    Where a message came from.

    Trust marks (is_bot, role_authorized, delivered_via_upstream_relay) are no fields of it: they never come off the
    wire.
    """

    platform: str
    chat_id: str
    chat_type: str = "dm"
    chat_name: str | None = None
    user_id: str | None = None
    user_name: str | None = None
    thread_id: str | None = None
    chat_topic: str | None = None
    user_id_alt: str | None = None
    chat_id_alt: str | None = None
    scope_id: str | None = None
    parent_chat_id: str | None = None
    message_id: str | None = None
    profile: str | None = None
    auto_thread_created: bool = False
    auto_thread_initial_name: str | None = None
    prospective_thread_id: str | None = None


class ReplyTo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the platform knew about the message that is answered."""

    text: str | None = None
    author: str | None = None
    is_own: bool | None = None


class Media(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An attachment; it belongs to the media_url with the same url, whatever their order."""

    url: str
    kind: str | None = None
    mime: str | None = None
    size: int | None = None
    filename: str | None = None
    caption: str | None = None


class PromptResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A choice that a user made on a prompt."""

    prompt_id: str
    option_id: str
    label: str | None = None
    prompt_message_id: str | None = None


class InboundEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message. ``context`` is for reference only, never a trigger."""

    source: Source
    text: str = ""
    message_type: MessageType = MessageType.TEXT
    message_id: str | None = None
    reply_to_message_id: str | None = None
    reply_to: ReplyTo | None = None
    media_urls: tuple[str, ...] = ()
    media: tuple[Media, ...] = ()
    context: tuple["InboundEvent", ...] = ()
    context_error: bool = False
    prompt_response: PromptResponse | None = None
