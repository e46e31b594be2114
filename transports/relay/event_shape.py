"""The JSON shape of a relay event and its source, and the way from there to the vocabulary of actors and back."""

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from actors.messages.inbound import InboundEvent, Media, MessageType, PromptResponse, ReplyTo, Source

Name = Annotated[str, msgspec.Meta(min_length=1)]
Sometimes = str | UnsetType | None
"""Written only when it is set, as the contract has it; null is read as absent."""

ID_FIELDS = frozenset(
    {
        "chat_id",
        "user_id",
        "thread_id",
        "message_id",
        "scope_id",
        "user_id_alt",
        "chat_id_alt",
        "parent_chat_id",
        "prospective_thread_id",
        "reply_to_message_id",
        "prompt_message_id",
        "botId",
        "bufferId",
    }
)
"""Fields that some platforms have numbers for, by their wire names."""


def spell_ids(value: Any) -> None:
    """Turn the ids within ``value`` (decoded JSON) that came as numbers into texts, in place."""
    open_values = [value]
    while open_values:
        value = open_values.pop()
        if isinstance(value, dict):
            for key, item in value.items():
                if key in ID_FIELDS and isinstance(item, int) and not isinstance(item, bool):
                    value[key] = str(item)
            open_values += value.values()
        elif isinstance(value, list):
            open_values += value


class SourceShape(msgspec.Struct, frozen=True, kw_only=True):
    """Where a message came from. What the contract calls always present is always written."""

    platform: Name
    chat_id: str | None = None
    chat_type: str | None = None
    chat_name: str | None = None
    user_id: str | None = None
    user_name: str | None = None
    thread_id: str | None = None
    chat_topic: str | None = None
    user_display_name: Sometimes = UNSET
    user_handle: Sometimes = UNSET
    user_id_alt: Sometimes = UNSET
    chat_id_alt: Sometimes = UNSET
    scope_id: Sometimes = UNSET
    parent_chat_id: Sometimes = UNSET
    message_id: Sometimes = UNSET
    profile: Sometimes = UNSET
    auto_thread_created: bool | UnsetType | None = UNSET
    auto_thread_initial_name: Sometimes = UNSET
    prospective_thread_id: Sometimes = UNSET

    def to_source(self) -> Source:
        """Return what the actors know of it."""
        return Source(
            platform=self.platform,
            chat_id=self.chat_id or "",
            chat_type=self.chat_type or "dm",
            chat_name=self.chat_name or None,
            user_id=self.user_id or None,
            user_name=self.user_display_name or self.user_name or self.user_handle or None,
            thread_id=self.thread_id or None,
            chat_topic=self.chat_topic or None,
            user_id_alt=self.user_id_alt or None,
            chat_id_alt=self.chat_id_alt or None,
            scope_id=self.scope_id or None,
            parent_chat_id=self.parent_chat_id or None,
            message_id=self.message_id or None,
            profile=self.profile or None,
            auto_thread_created=bool(self.auto_thread_created),
            auto_thread_initial_name=self.auto_thread_initial_name or None,
            prospective_thread_id=self.prospective_thread_id or None,
        )

    @classmethod
    def of(cls, source: Source) -> "SourceShape":
        """Return the shape of ``source``."""
        return cls(
            platform=source.platform,
            chat_id=source.chat_id,
            chat_type=source.chat_type,
            chat_name=source.chat_name,
            user_id=source.user_id,
            user_name=source.user_name,
            thread_id=source.thread_id,
            chat_topic=source.chat_topic,
            user_id_alt=source.user_id_alt or UNSET,
            chat_id_alt=source.chat_id_alt or UNSET,
            scope_id=source.scope_id or UNSET,
            parent_chat_id=source.parent_chat_id or UNSET,
            message_id=source.message_id or UNSET,
            profile=source.profile or UNSET,
            auto_thread_created=source.auto_thread_created or UNSET,
            auto_thread_initial_name=source.auto_thread_initial_name or UNSET,
            prospective_thread_id=source.prospective_thread_id or UNSET,
        )


class EventShape(msgspec.Struct, frozen=True, kw_only=True):
    """One message. ``context`` is read entry by entry: what is wrong in it must not cost the message itself."""

    text: str | None = ""
    message_type: str | None = "text"
    source: SourceShape
    message_id: Sometimes = UNSET
    reply_to_message_id: Sometimes = UNSET
    reply_to: ReplyTo | UnsetType | None = UNSET
    media_urls: tuple[str, ...] | UnsetType | None = UNSET
    media: tuple[Media, ...] | UnsetType | None = UNSET
    context: Any = UNSET
    context_error: bool | UnsetType | None = UNSET
    prompt_response: PromptResponse | UnsetType | None = UNSET

    def to_event(self) -> InboundEvent:
        """Return what the actors know of it."""
        return InboundEvent(
            source=self.source.to_source(),
            text=self.text or "",
            message_type=_message_type(self.message_type),
            message_id=self.message_id or None,
            reply_to_message_id=self.reply_to_message_id or None,
            reply_to=self.reply_to or None,
            media_urls=self.media_urls or (),
            media=self.media or (),
            context=tuple(_read_context(self.context)),
            context_error=bool(self.context_error),
            prompt_response=self.prompt_response or None,
        )

    @classmethod
    def of(cls, event: InboundEvent) -> "EventShape":
        """Return the shape of ``event``."""
        return cls(
            text=event.text,
            message_type=event.message_type.value,
            source=SourceShape.of(event.source),
            message_id=event.message_id or UNSET,
            reply_to_message_id=event.reply_to_message_id or UNSET,
            reply_to=event.reply_to or UNSET,
            media_urls=event.media_urls or UNSET,
            media=event.media or UNSET,
            context=tuple(map(cls.of, event.context)) or UNSET,
            context_error=event.context_error or UNSET,
            prompt_response=event.prompt_response or UNSET,
        )


def _message_type(written: str | None) -> MessageType:
    try:
        return MessageType(written or MessageType.TEXT)
    except ValueError:
        return MessageType.TEXT


def _read_context(entries: Any) -> Iterator[InboundEvent]:
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, dict):
            continue
        # Context of context is nothing that anybody has asked for.
        flat = {name: value for name, value in entry.items() if name != "context"}
        spell_ids(flat)
        try:
            shape = msgspec.convert(flat, EventShape)
        except msgspec.ValidationError:
            continue
        yield shape.to_event()
