"""What a platform can do, as its connector describes it (relay.md, section 2)."""

import enum

import msgspec

CONTRACT_VERSION = 1
DEFAULT_MAX_MESSAGE_LENGTH = 4096
LEGACY_OPS = ("send", "edit", "typing", "follow_up")


class LenUnit(enum.StrEnum):
    """In what a platform counts the length of a message."""

    CHARS = "chars"
    UTF16 = "utf16"


class Descriptor(msgspec.Struct, frozen=True, kw_only=True):
    """The capabilities of one platform behind one connector."""

    contract_version: int = CONTRACT_VERSION
    platform: str
    label: str
    max_message_length: int = DEFAULT_MAX_MESSAGE_LENGTH
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
    supported_ops: tuple[str, ...] = ()

    def supports(self, op: str) -> bool:
        """Say whether the op may be sent; without a list the legacy ones are meant."""
        return op in (self.supported_ops or LEGACY_OPS)
