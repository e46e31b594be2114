"""How structured values lie in columns: JSON, by msgspec."""

from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

encode = msgspec.json.Encoder().encode


def encode_or_none(value: Any) -> bytes | None:
    """Return the column of an optional value."""
    return None if value is None else encode(value)


class Column(msgspec.Struct, frozen=True):
    """Reads a column back as its type."""

    decoder: Any

    @classmethod
    def of(cls, kind: Any) -> "Column":
        """Return the reader of columns that hold ``kind``."""
        return cls(msgspec.json.Decoder(kind))

    def read(self, value: bytes | None) -> Any:
        """Return the value, None for NULL."""
        return None if value is None else self.decoder.decode(value)
