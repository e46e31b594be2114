"""Who may ask for what."""

from actors.exceptions import Forbidden
from actors.messages.admin import AdminRequest
from actors.messages.rows import KeyRow


def demand(request: AdminRequest, caller: KeyRow) -> None:
    """Return if the caller's key reaches the request's scope, else raise Forbidden."""
    if not caller.allows(request.needed):
        raise Forbidden(f"{request.type} takes a key with the scope {request.needed}")
