"""The credentials that a first run makes: a file each (0600), and only their hashes in the store (ADM-11)."""

import hashlib
import os
from pathlib import Path

import msgspec

from actors.exceptions import Conflict
from actors.messages.rows import KeyScope
from actors.messages.store import FindKey, ListKeys, PutKey
from actors.runtime import Budget, Ref, System

STORE_SECONDS = 10.0


class Credential(msgspec.Struct, frozen=True):
    """One file of the data directory and what its key may do."""

    file: str
    name: str
    prefix: str
    scopes: tuple[KeyScope, ...]


ADMIN = Credential("admin.token", "admin", "tka_", (KeyScope.ADMIN,))
API = Credential("api.key", "default", "tk_", (KeyScope.API,))


async def ensure_credentials(system: System, store: Ref, data_dir: Path) -> None:
    """
    Write ``admin.token`` and a first ``api.key`` where they are missing.

    An API key that was moved away stays good and is not made again; an admin token is, as without one nobody could
    administer the daemon.
    """
    keys = await store.ask(ListKeys(), Budget.of(system.clock, STORE_SECONDS))
    names = {key.name for key in keys}
    for credential in (ADMIN, API):
        path = data_dir / credential.file
        if path.exists():
            await _register(system, store, credential, path.read_text().strip(), credential.name)
        elif credential is ADMIN or credential.name not in names:
            # The file comes first: if the process dies in between, the next start finds it and registers it.
            secret = _write(system, path, credential.prefix)
            await _register(system, store, credential, secret, _free_name(credential.name, names))


def _write(system: System, path: Path, prefix: str) -> str:
    secret = f"{prefix}{system.random.getrandbits(256):064x}"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{secret}\n")
        file.flush()
        os.fsync(file.fileno())
    return secret


async def _register(system: System, store: Ref, credential: Credential, secret: str, name: str) -> None:
    key_hash = hashlib.sha256(secret.encode()).hexdigest()
    budget = Budget.of(system.clock, STORE_SECONDS)
    if await store.ask(FindKey(key_hash=key_hash), budget) is not None:
        return
    try:
        await store.ask(
            PutKey(
                key_id=system.new_id(),
                name=name,
                owner=credential.name,
                scopes=credential.scopes,
                key_hash=key_hash,
                at=system.clock.wall(),
            ),
            budget,
        )
    except Conflict:
        # A revoked or replaced key still lies in the file: revoking it was somebody's decision, so it stays refused.
        return


def _free_name(name: str, taken: set[str]) -> str:
    free, n = name, 2
    while free in taken:
        free, n = f"{name}-{n}", n + 1
    return free
