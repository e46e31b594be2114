"""The JSON shape of a capability descriptor, and the way from there to the vocabulary of actors and back."""

from typing import Any

import msgspec
from msgspec import UNSET

from actors.messages.descriptor import Descriptor, LenUnit, usable_length
from transports.relay.event_shape import Name, Sometimes

Flag = bool | None


class DescriptorShape(msgspec.Struct, frozen=True, kw_only=True):
    """The nine required fields of contract version 1, and those that came later."""

    contract_version: int
    platform: Name
    label: str
    max_message_length: Any
    supports_draft_streaming: bool
    supports_edit: bool
    supports_threads: bool
    markdown_dialect: str
    len_unit: LenUnit
    emoji: Sometimes = UNSET
    platform_hint: Sometimes = UNSET
    pii_safe: Flag = False
    supports_context: Flag = False
    supports_inchannel_continuable: Flag = False
    supports_block_formatting: Flag = False
    supported_ops: Any = UNSET

    def to_descriptor(self) -> Descriptor:
        """Return what the actors know of it."""
        return Descriptor(
            contract_version=self.contract_version,
            platform=self.platform,
            label=self.label,
            max_message_length=usable_length(self.max_message_length),
            supports_draft_streaming=self.supports_draft_streaming,
            supports_edit=self.supports_edit,
            supports_threads=self.supports_threads,
            markdown_dialect=self.markdown_dialect,
            len_unit=self.len_unit,
            emoji=self.emoji or None,
            platform_hint=self.platform_hint or None,
            pii_safe=bool(self.pii_safe),
            supports_context=bool(self.supports_context),
            supports_inchannel_continuable=bool(self.supports_inchannel_continuable),
            supports_block_formatting=bool(self.supports_block_formatting),
            supported_ops=_read_ops(self.supported_ops),
        )

    @classmethod
    def of(cls, descriptor: Descriptor) -> "DescriptorShape":
        """Return the shape of ``descriptor``."""
        return cls(
            contract_version=descriptor.contract_version,
            platform=descriptor.platform,
            label=descriptor.label,
            max_message_length=descriptor.max_message_length,
            supports_draft_streaming=descriptor.supports_draft_streaming,
            supports_edit=descriptor.supports_edit,
            supports_threads=descriptor.supports_threads,
            markdown_dialect=descriptor.markdown_dialect,
            len_unit=descriptor.len_unit,
            emoji=descriptor.emoji or UNSET,
            platform_hint=descriptor.platform_hint or UNSET,
            pii_safe=descriptor.pii_safe,
            supports_context=descriptor.supports_context,
            supports_inchannel_continuable=descriptor.supports_inchannel_continuable,
            supports_block_formatting=descriptor.supports_block_formatting,
            supported_ops=descriptor.supported_ops,
        )


def _read_ops(ops: Any) -> tuple[str, ...]:
    return tuple(op for op in ops if isinstance(op, str)) if isinstance(ops, list) else ()
