"""
The tokens with which a peer proves its name, as pure functions (relay.md, section 3).

A token is unpadded base64url of ``payload:exp:sig``. Whoever checks one reads the claim first, finds the secrets of the
peer that it names, and only then knows whether the claim is true.
"""

import base64
import binascii
import enum
import hashlib
import hmac
import re
from collections.abc import Sequence

import msgspec

from actors.messages.secret import Secret

NEVER = 0
"""The expiry of a token that does not expire."""

_LONGEST_TOKEN = 8192
_TOKEN = re.compile(r"[A-Za-z0-9_-]+")
# Eighteen digits reach beyond any date and stay within what every peer's integers hold.
_EXPIRY = re.compile(r"[0-9]{1,18}")
_SIGNATURE = re.compile(r"[0-9A-Fa-f]{64}")


class Verdict(enum.Enum):
    """What a claim is worth."""

    VALID = "valid"
    EXPIRED = "expired"
    """Rightly signed, but too old: never a reason to think that the peer was revoked."""
    BAD = "bad"


class Claim(msgspec.Struct, frozen=True):
    """What a token says of itself: nothing is proved yet."""

    payload: str
    """The name of a peer; it may contain colons."""
    expires: int
    """Unix seconds; NEVER if it does not."""
    signed: bytes
    """What the signature is over, exactly as it came."""
    signature: str
    """Hexadecimal."""


def mint_token(payload: str, secret: Secret, expires: int) -> str:
    """Return a token for ``payload`` that is valid up to ``expires`` (unix seconds; NEVER for ever)."""
    signed = f"{payload}:{expires}".encode()
    raw = signed + b":" + _sign(signed, secret).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def read_claim(bearer: str) -> Claim | None:
    """Read a token without believing it; None if it is not one."""
    if len(bearer) > _LONGEST_TOKEN or not _TOKEN.fullmatch(bearer):
        return None
    try:
        text = base64.urlsafe_b64decode(bearer + "=" * (-len(bearer) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    # From the right, as a peer's name may contain colons.
    signed, _, signature = text.rpartition(":")
    payload, _, expires = signed.rpartition(":")
    if not payload or not _EXPIRY.fullmatch(expires) or not _SIGNATURE.fullmatch(signature):
        return None
    return Claim(payload, int(expires), signed.encode(), signature.lower())


def verify(claim: Claim | str, secrets: Sequence[Secret], now: float) -> Verdict:
    """
    Judge a claim, or the token that makes it, by the secrets of the peer that it names: primary first, then secondary.

    ``now`` is in unix seconds. The time it takes does not depend on which secret fits, or how nearly.
    """
    if isinstance(claim, str):
        read = read_claim(claim)
        if read is None:
            return Verdict.BAD
        claim = read
    genuine = False
    for secret in secrets:
        genuine |= bool(secret.value) & hmac.compare_digest(_sign(claim.signed, secret), claim.signature)
    if not genuine:
        return Verdict.BAD
    # The second in which it expires is its last.
    expired = claim.expires != NEVER and now >= claim.expires + 1
    return Verdict.EXPIRED if expired else Verdict.VALID


def _sign(signed: bytes, secret: Secret) -> str:
    return hmac.new(secret.value.encode(), signed, hashlib.sha256).hexdigest()
