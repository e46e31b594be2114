"""What a user may set about one model lane."""

import enum
import math
import re
from collections.abc import Mapping
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import msgspec

from actors.messages.lane import Capability, LaneTraits, ThinkTags
from actors.messages.secret import Secret

SHORTEST_SECRET = 4
"""What is shorter, such as the number of an API's version, says nothing, and is part of many a word."""


_CLASS_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")


class LaneKind(enum.StrEnum):
    """What answers behind a lane."""

    OPENAI = "openai"
    """An HTTP server that speaks OpenAI's chat completions."""
    ECHO = "echo"
    """Nobody: it says what it was told, so that an installation without a model can be tried."""


class LaneSettings(msgspec.Struct, frozen=True, kw_only=True):
    """
    One section of a lane; times in seconds.

    Raises ValueError, or msgspec.ValidationError when decoded, with a text that says what to write instead.
    """

    name: str
    kind: LaneKind = LaneKind.OPENAI
    base_url: str | None = None
    """Up to and including the version, for example ``http://127.0.0.1:11434/v1``."""
    model: str = ""
    """The backend's name of the model."""
    api_key_env: str | None = None
    """The name of the environment variable that holds the key; it is read when the lane starts."""
    api_key: Secret | None = None
    capabilities: frozenset[Capability] = frozenset({Capability.TOOLS})
    """What the model takes beside text: system_anywhere, developer, images, files, tools."""
    idle_timeout_s: float = 60.0
    """The watchdog: no byte for that long is the death of a stream."""
    connect_timeout_s: float = 10.0
    """Name resolution and TLS included."""
    trailing_s: float = 5.0
    """How long the rest is waited for once the outcome is known: usage and the end mark, or the text of an error."""
    keepalive_s: float = 4.0
    """How long an idle connection is kept. Common servers close theirs after 5."""
    max_streams: int = 100
    """Streams at once; one more is refused as rate limited."""
    max_event_bytes: int = 1 << 20
    """The longest event of a stream that is accepted."""
    finish_optional: bool = False
    """Whether an orderly end without a finish reason is an end like any other."""
    order: int | None = None
    """Makes the lane a fallback of the others; the lowest is tried first."""
    retryable: tuple[str, ...] = ()
    """Error classes that are worth another try on this lane, beside those that always are."""
    context_window: int | None = None
    """In tokens; without it only the backend's refusal shows that a conversation is too long."""
    chars_per_token: float = 4.0
    """By which tokens are estimated where the backend does not count them."""
    think_tags: ThinkTags = ThinkTags.LEADING
    """Where the model writes its reasoning between tags: off, leading or anywhere."""
    hold_back: bool = False
    """Whether an answer is shown only when it is whole, so that no client sees one that breaks off."""
    echo_delay_s: float = 0.02
    """The echo's pause after each word; 0 answers without any."""

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("name is empty; write a short word by which people choose the lane")
        self._check_amounts()
        for name in self.retryable:
            if not _CLASS_NAME.match(name):
                raise ValueError(
                    f"retryable of lane {self.name} has {name!r}; write names of error classes, such as BadRequest"
                )
        if self.kind is LaneKind.OPENAI:
            self._check_backend()

    def _check_backend(self) -> None:
        if not self.model:
            raise ValueError(f"model of lane {self.name} is missing; write the backend's name of the model")
        if self.base_url is None:
            raise ValueError(f"base_url of lane {self.name} is missing; write the backend's URL up to /v1")
        parts = self._url()
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"base_url of lane {self.name} is no http:// or https:// URL")
        if "@" in parts.netloc and (self.api_key is not None or self.api_key_env is not None):
            raise ValueError(f"lane {self.name} has a key and a password in its base_url; keep one of them")

    def _check_amounts(self) -> None:
        if self.order is not None and self.order < 0:
            raise ValueError(f"order of lane {self.name} is {self.order}; write 0 or more, or leave it out")
        if self.echo_delay_s < 0:
            raise ValueError(f"echo_delay_s of lane {self.name} is {self.echo_delay_s}; write 0 or more")
        positive = {
            "context_window": (self.context_window, "a number of tokens, such as 128000, or leave it out"),
            "chars_per_token": (self.chars_per_token, "a number above 0, such as 4.0"),
            "idle_timeout_s": (self.idle_timeout_s, "seconds above 0, such as 60.0"),
            "connect_timeout_s": (self.connect_timeout_s, "seconds above 0, such as 10.0"),
            "trailing_s": (self.trailing_s, "seconds above 0, such as 5.0"),
            "keepalive_s": (self.keepalive_s, "seconds above 0, such as 4.0"),
            "max_streams": (self.max_streams, "1 or more"),
            "max_event_bytes": (self.max_event_bytes, "bytes above 0, such as 1048576"),
        }
        for field, (value, what) in positive.items():
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"{field} of lane {self.name} is {value}; write {what}")

    def _url(self) -> SplitResult:
        return urlsplit(self.base_url or "")

    def completions_url(self) -> str:
        """Return where requests are posted; a query of ``base_url`` stays at the end."""
        parts = self._url()
        return parts._replace(path=parts.path.rstrip("/") + "/chat/completions", fragment="").geturl()

    def shown_url(self) -> str | None:
        """Return ``base_url`` without what may be secret in it (REL-6)."""
        if self.base_url is None:
            return None
        parts = self._url()
        return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()

    def traits(self) -> LaneTraits:
        """Return what is known of the lane without asking it."""
        echoes = self.kind is LaneKind.ECHO
        return LaneTraits(
            name=self.name,
            kind=str(self.kind),
            model=self.model,
            backend=self.shown_url() or str(self.kind),
            order=self.order,
            # The echo hears nothing but the user's words, so that everything else may stand beside them.
            capabilities=frozenset(Capability) if echoes else self.capabilities,
            retryable=frozenset(self.retryable),
            context_window=self.context_window,
            chars_per_token=self.chars_per_token,
            think_tags=self.think_tags,
            hold_back=self.hold_back,
        )

    def key(self, environ: Mapping[str, str]) -> Secret | None:
        """Return the API key, if one is set."""
        if self.api_key is not None:
            return self.api_key
        value = environ.get(self.api_key_env, "").strip() if self.api_key_env is not None else ""
        return Secret(value) if value else None

    def secrets(self, environ: Mapping[str, str]) -> tuple[Secret, ...]:
        """Return what no text may show: the key, and what of ``base_url`` may be secret, as written and as meant."""
        parts = self._url()
        values = [parts.password or "", parts.netloc.rpartition("@")[0]]
        values += [value for _, value in parse_qsl(parts.query)]
        values += [unquote(value) for value in values]
        key = self.key(environ)
        found = {
            value
            for value in (key.value if key is not None else "", *values)
            if len(value) >= SHORTEST_SECRET
        }
        return tuple(map(Secret, sorted(found)))

    def lacks_key(self, environ: Mapping[str, str]) -> bool:
        """Say whether the named environment variable does not hold the key that it should."""
        return self.api_key_env is not None and self.key(environ) is None
