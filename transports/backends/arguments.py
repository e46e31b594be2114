"""Arguments of tool calls: models write them, and what they write is not always JSON. Pure."""

import re

import msgspec

UNPARSED = "unparsed"
"""The member that holds arguments which are no JSON object, as the model wrote them."""

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
# Any escape, so that no half of one is taken for another.
_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)")


def legal(arguments: str) -> str:
    """Return arguments that are a JSON object: the same if they are one (TRN-42)."""
    if not arguments.strip():
        return "{}"
    try:
        _OBJECT.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return msgspec.json.encode({UNPARSED: arguments}).decode()
    return arguments


def spelled_out(arguments: str, characters: str) -> str:
    """Return legal arguments with ``characters`` as themselves, where they are written as escapes."""
    if "\\u" not in arguments:
        return arguments
    escapes = {f"\\u{ord(character):04x}": character for character in characters}
    return _ESCAPE.sub(lambda found: escapes.get(found[0].lower(), found[0]), arguments)
