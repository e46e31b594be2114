"""Tokens: what is minted is believed for its time, and nothing else ever is."""

import base64
import hashlib
import hmac

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.messages.secret import Secret
from actors.relay.credentials import NEVER, Claim, Verdict, mint_token, read_claim, verify

quick = settings(max_examples=150, deadline=None)

PRIMARY, SECONDARY, FOREIGN = Secret("primary"), Secret("secondary"), Secret("foreign")
NOW = 1_800_000_000.5

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)


def forge(text: str | bytes) -> str:
    raw = text if isinstance(text, bytes) else text.encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def test_a_token_has_the_form_of_the_contract() -> None:
    signature = hmac.new(b"primary", b"gw-7:1800000300", hashlib.sha256).hexdigest()
    expected = base64.urlsafe_b64encode(f"gw-7:1800000300:{signature}".encode()).decode().rstrip("=")
    assert mint_token("gw-7", PRIMARY, 1_800_000_300) == expected


@quick
@given(names, st.integers(0, 10**12))
def test_a_claim_says_what_was_minted(name: str, expires: int) -> None:
    claim = read_claim(mint_token(name, PRIMARY, expires))
    assert claim is not None
    assert (claim.payload, claim.expires) == (name, expires)
    assert verify(claim, [PRIMARY], 0.0) is Verdict.VALID


def test_a_name_may_contain_colons() -> None:
    claim = read_claim(mint_token("tenant:gw:7", PRIMARY, NEVER))
    assert claim is not None
    assert claim.payload == "tenant:gw:7"


@pytest.mark.parametrize("secret", [PRIMARY, SECONDARY])
def test_both_secrets_of_a_rotation_are_good(secret: Secret) -> None:
    assert verify(mint_token("gw", secret, NEVER), [PRIMARY, SECONDARY], NOW) is Verdict.VALID


@pytest.mark.parametrize("secrets", [[], [FOREIGN], [Secret("")]])
def test_without_its_secret_a_token_is_bad(secrets: list[Secret]) -> None:
    assert verify(mint_token("gw", PRIMARY, NEVER), secrets, NOW) is Verdict.BAD


def test_a_token_signed_with_nothing_is_bad() -> None:
    assert verify(mint_token("gw", Secret(""), NEVER), [Secret("")], NOW) is Verdict.BAD


@pytest.mark.parametrize(
    ("now", "verdict"),
    [(99.0, Verdict.VALID), (100.0, Verdict.VALID), (100.9, Verdict.VALID), (101.0, Verdict.EXPIRED)],
)
def test_the_second_of_its_expiry_is_a_tokens_last(now: float, verdict: Verdict) -> None:
    assert verify(mint_token("gw", PRIMARY, 100), [PRIMARY], now) is verdict


def test_zero_never_expires() -> None:
    assert verify(mint_token("gw", PRIMARY, NEVER), [PRIMARY], 1e18) is Verdict.VALID


def test_only_a_genuine_token_is_called_expired() -> None:
    assert verify(mint_token("gw", FOREIGN, 100), [PRIMARY], NOW) is Verdict.BAD


@pytest.mark.parametrize("part", [0, 1, 2])
def test_a_changed_part_makes_it_bad(part: int) -> None:
    token = mint_token("gw", PRIMARY, 1_900_000_000)
    parts = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode().split(":")
    parts[part] = {0: "gx", 1: "1900000001", 2: "0" * 64}[part]
    assert verify(forge(":".join(parts)), [PRIMARY], NOW) is Verdict.BAD


def test_the_signature_may_be_in_capitals() -> None:
    claim = read_claim(mint_token("gw", PRIMARY, NEVER))
    assert claim is not None
    assert (
        verify(forge(claim.signed + b":" + claim.signature.upper().encode()), [PRIMARY], NOW) is Verdict.VALID
    )


@pytest.mark.parametrize(
    "hostile",
    [
        "",
        "a",
        "====",
        "not base64!",
        "ö",
        "\ud800",
        "gw\x00",
        "A" * 10_000_000,
        forge(b"\xff\xfe:0:" + b"0" * 64),
        forge("gw"),
        forge("gw:0"),
        forge(":0:" + "0" * 64),
        forge("gw::" + "0" * 64),
        forge("gw:-1:" + "0" * 64),
        forge("gw:1e3:" + "0" * 64),
        forge("gw:١:" + "0" * 64),
        forge("gw:" + "9" * 5000 + ":" + "0" * 64),
        forge("gw:0:"),
        forge("gw:0:" + "0" * 63),
        forge("gw:0:" + "g" * 64),
        forge("gw:0:" + "0" * 64 + "\n"),
        mint_token("gw", PRIMARY, -5),
        mint_token("gw", PRIMARY, NEVER) + "\n",
    ],
)
def test_what_is_no_token_makes_no_claim(hostile: str) -> None:
    assert read_claim(hostile) is None
    assert verify(hostile, [PRIMARY], NOW) is Verdict.BAD


@quick
@given(
    st.text(max_size=60)
    | st.binary(max_size=60).map(forge)
    | st.text(max_size=60).map(lambda t: forge(t.encode(errors="replace")))
)
def test_nothing_that_was_not_minted_is_believed(bearer: str) -> None:
    assert verify(bearer, [PRIMARY, SECONDARY], NOW) is Verdict.BAD


def test_a_claim_alone_proves_nothing() -> None:
    assert verify(Claim("gw", NEVER, b"gw:0", "0" * 64), [PRIMARY], NOW) is Verdict.BAD
