"""The configuration: TOML with every key optional, laid over defaults; each value knows where it came from."""

import difflib
import enum
import os
import stat
import tomllib
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
import platformdirs

from actors.admin.settings import AdminSettings
from actors.amounts import LONGEST
from actors.events.settings import EventSettings
from actors.exceptions import ConfigError
from actors.messages.secret import Secret
from actors.relay.settings import RelaySettings
from actors.session.settings import SessionSettings
from actors.supervision.settings import SupervisionSettings
from actors.turn.settings import TurnSettings
from storage.settings import RetentionSettings, StoreSettings
from transports.backends.settings import LaneSettings
from transports.front.admin_settings import AdminSocketSettings
from transports.front.settings import FrontSettings

MOST_BYTES = 4 << 20
"""The largest configuration file that is read."""


class ConsoleSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One ``[[console]]``: a platform of which Turnkeep itself is the connector."""

    platform: str


class ShutdownSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Section ``[shutdown]``."""

    budget_s: Annotated[float, msgspec.Meta(ge=1, le=LONGEST)] = 20.0
    """One budget for the whole tree."""
    drain_share: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.5
    """The part of it in which running turns may end by themselves."""


class LogSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Section ``[log]``."""

    level: typing.Literal["debug", "info", "warning", "error"] = "info"
    json: bool = False
    """One JSON object a line, for a log collector; otherwise lines for people."""


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a user may set."""

    data_dir: str = ""
    server: FrontSettings = FrontSettings()
    session: SessionSettings = SessionSettings()
    turn: TurnSettings = TurnSettings()
    relay: RelaySettings = RelaySettings()
    store: StoreSettings = StoreSettings()
    retention: RetentionSettings = RetentionSettings()
    events: EventSettings = EventSettings()
    admin: AdminSettings = AdminSettings()
    admin_socket: AdminSocketSettings = AdminSocketSettings()
    supervision: SupervisionSettings = SupervisionSettings()
    shutdown: ShutdownSettings = ShutdownSettings()
    log: LogSettings = LogSettings()
    console: tuple[ConsoleSettings, ...] = (ConsoleSettings(platform="console"),)
    lane: tuple[LaneSettings, ...] = ()

    @property
    def data_path(self) -> Path:
        """The data directory."""
        return Path(self.data_dir)


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration, and the source of each value that is not a default, by dotted key."""

    config: Config
    sources: dict[str, str]


def load(
    path: Path | None = None,
    *,
    environment: Mapping[str, str] = os.environ,
    arguments: Mapping[str, Any] | None = None,
) -> Loaded:
    """
    Read defaults, then the file, then the environment, then the command line; the later wins.

    ``arguments`` are dotted keys with values. Raises ConfigError, which names the key and what to write instead.
    """
    sources: dict[str, str] = {}
    values: dict[str, Any] = {}
    named = path or (Path(environment["TURNKEEP_CONFIG"]) if environment.get("TURNKEEP_CONFIG") else None)
    if named is not None:
        values = _read(named)
        _check_keys(values, Config, "")
        sources.update(dict.fromkeys(_leaves(values), f"file {named}"))
    for key, value, source in _from_environment(environment, values):
        _put(values, key, value)
        sources[key] = source
    for key, value in (arguments or {}).items():
        _put(values, key, value)
        sources[key] = "command line"
    if not values.get("data_dir"):
        values["data_dir"] = str(default_data_dir())
        sources["data_dir"] = "the platform's data directory"
    values["data_dir"] = str(Path(str(values["data_dir"])).expanduser().absolute())
    _wrap_secrets(values)
    try:
        config = msgspec.convert(values, Config)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{_place(str(error))} ({named or 'environment or command line'})") from None
    _check_names(config)
    return Loaded(config=config, sources=sources)


def default_data_dir() -> Path:
    """Return the platform's place for what programs keep."""
    return Path(platformdirs.user_data_dir("turnkeep"))


def describe(loaded: Loaded) -> list[tuple[str, str, str]]:
    """Return (key, value, source) of the effective configuration; secrets are not shown."""
    rows: list[tuple[str, str, str]] = []
    for key, value in _flatten(loaded.config, ""):
        found = [
            source for known, source in loaded.sources.items() if key == known or key.startswith(f"{known}.")
        ]
        plain = value.value if isinstance(value, enum.Enum) else value
        if isinstance(plain, frozenset):
            plain = sorted(str(one) for one in plain)
        shown = "(set)" if isinstance(value, Secret) else repr(plain)
        rows.append((key, shown, found[0] if found else "default"))
    return rows


def _read(path: Path) -> dict[str, Any]:
    try:
        _check_file(path)
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"there is no configuration file {path}") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None
    except RecursionError:
        raise ConfigError(f"{path} is not valid TOML: it is nested too deeply") from None


def _check_file(path: Path) -> None:
    """Refuse what would be read for ever, or only once, as the file is read again while the daemon runs."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise ConfigError(f"{path} is no regular file; write the configuration to one")
    if found.st_size > MOST_BYTES:
        raise ConfigError(f"{path} has {found.st_size} bytes; a configuration has {MOST_BYTES} at most")


def _check_keys(values: Mapping[str, Any], struct: type[msgspec.Struct], prefix: str) -> None:
    hints = typing.get_type_hints(struct)
    for key, value in values.items():
        if key not in hints:
            near = difflib.get_close_matches(key, hints, n=1, cutoff=0.5)
            hint = f"; did you mean {prefix}{near[0]}?" if near else f"; known are {', '.join(sorted(hints))}"
            raise ConfigError(f"unknown setting {prefix}{key}{hint}")
        inner = _struct_in(hints[key])
        if inner is None:
            continue
        for entry in value if isinstance(value, list) else [value]:
            if isinstance(entry, Mapping):
                _check_keys(entry, inner, f"{prefix}{key}.")


def _struct_in(hint: Any) -> type[msgspec.Struct] | None:
    """Return the settings struct that a type holds, itself or in a tuple or union."""
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return None if hint is Secret else hint
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is not None:
        for inner in typing.get_args(hint):
            if (found := _struct_in(inner)) is not None:
                return found
    return None


def _from_environment(
    environment: Mapping[str, str], values: Mapping[str, Any]
) -> list[tuple[str, Any, str]]:
    found: list[tuple[str, Any, str]] = []
    if environment.get("TURNKEEP_DATA_DIR"):
        found.append(("data_dir", environment["TURNKEEP_DATA_DIR"], "environment TURNKEEP_DATA_DIR"))
    if environment.get("TURNKEEP_BASE_URL") and not values.get("lane"):
        lane: dict[str, Any] = {"name": "default", "base_url": environment["TURNKEEP_BASE_URL"]}
        if not environment.get("TURNKEEP_MODEL"):
            raise ConfigError(
                "TURNKEEP_BASE_URL is set, but TURNKEEP_MODEL is not: name the model to ask for"
            )
        lane["model"] = environment["TURNKEEP_MODEL"]
        if environment.get("TURNKEEP_API_KEY"):
            lane["api_key"] = environment["TURNKEEP_API_KEY"]
        found.append(("lane", [lane], "environment TURNKEEP_BASE_URL"))
    elif environment.get("TURNKEEP_MODEL") and not values.get("lane"):
        raise ConfigError("TURNKEEP_MODEL is set, but TURNKEEP_BASE_URL is not: name the backend to ask")
    return found


def _wrap_secrets(values: dict[str, Any]) -> None:
    """From here on a key is a Secret, which says nothing of itself in any error."""
    lanes = values.get("lane")
    for lane in lanes if isinstance(lanes, list) else []:
        if isinstance(lane, dict) and isinstance(lane.get("api_key"), str):
            lane["api_key"] = {"value": lane["api_key"]}


def _put(values: dict[str, Any], key: str, value: Any) -> None:
    *path, last = key.split(".")
    for part in path:
        values = values.setdefault(part, {})
        if not isinstance(values, dict):
            raise ConfigError(f"setting {part}: expected a table [{part}], got {values!r}")
    values[last] = value


def _leaves(values: Mapping[str, Any], prefix: str = "") -> list[str]:
    leaves: list[str] = []
    for key, value in values.items():
        leaves += _leaves(value, f"{prefix}{key}.") if isinstance(value, Mapping) else [f"{prefix}{key}"]
    return leaves


def _flatten(value: Any, prefix: str) -> list[tuple[str, Any]]:
    if isinstance(value, msgspec.Struct) and not isinstance(value, Secret):
        rows: list[tuple[str, Any]] = []
        for field in value.__struct_fields__:
            rows += _flatten(getattr(value, field), f"{prefix}.{field}" if prefix else field)
        return rows
    if isinstance(value, tuple) and value and isinstance(value[0], msgspec.Struct):
        return [row for n, entry in enumerate(value) for row in _flatten(entry, f"{prefix}.{n}")]
    return [(prefix, value)]


def _place(error: str) -> str:
    """Turn ``Expected `int`, got `str` - at `$.server.port``` into a sentence that begins with the key."""
    what, _, where = error.partition(" - at `$")
    key = where.rstrip("`").lstrip(".")
    return f"setting {key}: {what[0].lower()}{what[1:]}" if key else what


def _check_names(config: Config) -> None:
    names = [lane.name for lane in config.lane]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"setting lane.name: {name!r} is used twice; give each lane a name of its own")
        if not name or "/" in name:
            raise ConfigError(f"setting lane.name: {name!r} is no name; use letters, digits and hyphens")
    if config.session.on_restart not in ("report", "retry"):
        raise ConfigError(
            f"setting session.on_restart: {config.session.on_restart!r} is unknown; write report or retry"
        )
    platforms = [console.platform for console in config.console]
    for platform in platforms:
        if platforms.count(platform) > 1:
            raise ConfigError(f"setting console.platform: {platform!r} is there twice; one console serves it")
