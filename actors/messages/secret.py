"""A secret on its way: it says nothing of itself in any text (REL-6)."""

import msgspec


class Secret(msgspec.Struct, frozen=True):
    """A credential. ``value`` is read only where it is compared, sealed or sent."""

    value: str

    def __repr__(self) -> str:
        return "Secret(…)"

    __str__ = __repr__
