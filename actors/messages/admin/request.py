"""The kinds of requests, and the words that they are made of."""

from typing import Annotated, Any, ClassVar

import msgspec

from actors.messages.rows import KeyScope

RequestId = str | int | None
"""Chosen by the client, handed back with the answer."""

Limit = Annotated[int, msgspec.Meta(ge=1, le=1000)]
Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")]
"""Letters, digits, dot, underscore and hyphen: it becomes a part of paths."""
Word = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
Path = Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]
"""An actor's. Bounded, as it goes into events."""
Platform = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9_-]{1,64}\Z")]
Text = Annotated[str, msgspec.Meta(min_length=1, max_length=1_000_000)]

Answer = dict[str, Any]
"""What a request is answered with: the ``result`` of the admin protocol."""


class AdminRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"):
    """Any of them."""

    scope: ClassVar[KeyScope] = KeyScope.OBSERVE
    changes: ClassVar[bool] = False
    audited: ClassVar[tuple[str, ...]] = ()
    patience_s: ClassVar[float | None] = None
    """How long it may take, in seconds, if that is more than others."""

    id: RequestId = None

    @property
    def type(self) -> str:
        """Its name in the protocol."""
        return type_of(type(self))

    @property
    def needed(self) -> KeyScope:
        """What a key needs for this one."""
        return self.scope

    @property
    def leaves_trace(self) -> bool:
        """Whether it is audited."""
        return self.changes


def type_of(request: type[AdminRequest]) -> str:
    """Return the name of a request in the protocol."""
    return str(request.__struct_config__.tag)
