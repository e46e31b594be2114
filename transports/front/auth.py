"""Who asks: a bearer key, looked up by its hash."""

import hashlib
from collections.abc import Iterable

from actors.messages.rows import KeyRow, KeyScope
from actors.messages.store import FindKey
from actors.runtime import Budget, Ref
from transports.front.errors import unauthorized

Headers = Iterable[tuple[bytes, bytes]]


def bearer(headers: Headers) -> str | None:
    """Return the bearer token of a request, None without exactly one."""
    found = [value for name, value in headers if name == b"authorization"]
    if len(found) != 1:
        return None
    scheme, _, token = found[0].decode("latin-1").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


async def authenticate(headers: Headers, scope: KeyScope, store: Ref, budget: Budget) -> KeyRow:
    """Return the request's key. Raises ApiError 401 if there is none that reaches ``scope``."""
    token = bearer(headers)
    if token is None:
        raise unauthorized()
    key = await store.ask(FindKey(key_hash=hashlib.sha256(token.encode()).hexdigest()), budget)
    if key is None or not key.allows(scope):
        raise unauthorized()
    return key
