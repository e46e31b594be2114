"""Sealing of secrets that must be readable to sign with: Fernet under a key file of the data directory (0600)."""

import hashlib
import hmac
import os
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken

from actors.exceptions import StoreUnavailable
from actors.messages.secret import Secret


class Seal:
    """Seals and opens with one key."""

    def __init__(self, key: bytes) -> None:
        self._fernet = Fernet(key)
        self._key = key

    @classmethod
    def at(cls, path: Path) -> "Seal":
        """Read the key file, or make it. Raises StoreUnavailable if it is damaged."""
        if not path.exists():
            partial = path.with_name(f"{path.name}.new")
            partial.unlink(missing_ok=True)
            descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(Fernet.generate_key())
                file.flush()
                os.fsync(file.fileno())
            partial.rename(path)
            # What is sealed with it is worthless if the name does not survive a loss of power.
            directory = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
        try:
            return cls(path.read_bytes().strip())
        except ValueError:
            raise StoreUnavailable(
                f"{path} is no key: restore it from a backup; without it no peer can be verified"
            ) from None

    def fingerprint(self, secret: Secret) -> str:
        """Return what a secret is found by; without the key nobody can try secrets against it."""
        return hmac.digest(self._key, secret.value.encode(), hashlib.sha256).hex()

    def seal(self, secret: Secret) -> bytes:
        """Return the sealed form."""
        return self._fernet.encrypt(secret.value.encode())

    def open(self, sealed: bytes) -> Secret | None:
        """Return the secret; None if another key sealed it."""
        try:
            return Secret(self._fernet.decrypt(sealed).decode())
        except InvalidToken:
            return None
