"""What a connector can do on one platform: the relay contract's capability descriptor, without its wire form."""

import enum

import msgspec

CONTRACT_VERSION = 1
DEFAULT_MAX_MESSAGE_LENGTH = 4096
"""Holds where a connector names no usable length."""
LARGEST_MAX_MESSAGE_LENGTH = 100_000
"""More is not believed: a message of that length still fits a relay line, even if every character is escaped."""
LEGACY_OPS = ("send", "edit", "typing", "follow_up")
"""What every connector could do before descriptors listed ops."""


class LenUnit(enum.StrEnum):
    """In what a platform counts the length of a message."""

    CHARS = "chars"
    UTF16 = "utf16"
    """Code units: a character outside the basic plane counts two."""


class Descriptor(msgspec.Struct, frozen=True, kw_only=True):
    """
    The capabilities of one platform behind one connector.

    Normalised whoever made it: ``max_message_length`` is from 1 to LARGEST_MAX_MESSAGE_LENGTH, ``supported_ops`` is
    never empty.
    """

    contract_version: int = CONTRACT_VERSION
    platform: str
    label: str
    max_message_length: int = DEFAULT_MAX_MESSAGE_LENGTH
    """In ``len_unit``."""
    supports_draft_streaming: bool = False
    supports_edit: bool = False
    supports_threads: bool = False
    markdown_dialect: str = "plain"
    len_unit: LenUnit = LenUnit.CHARS
    emoji: str | None = None
    platform_hint: str | None = None
    pii_safe: bool = False
    supports_context: bool = False
    supports_inchannel_continuable: bool = False
    supports_block_formatting: bool = False
    supported_ops: tuple[str, ...] = LEGACY_OPS

    def __post_init__(self) -> None:
        length = usable_length(self.max_message_length)
        msgspec.structs.force_setattr(self, "max_message_length", length)
        if not self.supported_ops:
            msgspec.structs.force_setattr(self, "supported_ops", LEGACY_OPS)

    def supports(self, op: str) -> bool:
        """Say whether the op may be sent to the platform."""
        return op in self.supported_ops


def usable_length(value: object) -> int:
    """Return ``value`` as a message length; what is no positive number becomes DEFAULT_MAX_MESSAGE_LENGTH."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        return DEFAULT_MAX_MESSAGE_LENGTH
    return min(value, LARGEST_MAX_MESSAGE_LENGTH)
