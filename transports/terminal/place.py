"""Where the daemon is, and what opens its door."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from transports.terminal.exits import Exit, Failure


class Options:
    """What is common to all verbs, as given on the command line; None where it was not."""

    def __init__(
        self,
        data_dir: str | None = None,
        url: str | None = None,
        token: str | None = None,
        as_json: bool = False,
        timeout: float | None = None,
    ) -> None:
        self.data_dir = data_dir
        self.url = url
        self.token = token
        self.as_json = as_json
        self.timeout = timeout

    def over(self, other: "Options") -> "Options":
        """Return these options with those of ``other`` where these say nothing."""
        return Options(
            self.data_dir or other.data_dir,
            self.url or other.url,
            self.token or other.token,
            self.as_json or other.as_json,
            self.timeout if self.timeout is not None else other.timeout,
        )


class Place:
    """A running daemon's address. It is looked up again for each connection, as a restart may change it."""

    def __init__(self, options: Options, environment: Mapping[str, str] = os.environ) -> None:
        self._url = options.url or environment.get("TURNKEEP_URL")
        self._token = options.token or environment.get("TURNKEEP_TOKEN")
        self._data_dir = options.data_dir or environment.get("TURNKEEP_DATA_DIR")

    @property
    def data_dir(self) -> Path:
        """The data directory: the named one, or the platform's."""
        if self._data_dir:
            return Path(self._data_dir)
        import platformdirs

        return Path(platformdirs.user_data_dir("turnkeep"))

    def admin_url(self) -> str:
        """Return the address of /admin. Raises Failure if no daemon has left one."""
        return _websocket(self._url or self._url_left_by_the_daemon())

    def token(self) -> str:
        """Return the key to show. Raises Failure if there is none."""
        if self._token:
            return self._token
        file = self.data_dir / "admin.token"
        try:
            return file.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise Failure(
                Exit.USAGE,
                f"no admin key: {file} cannot be read ({error.strerror}); give --token, or set TURNKEEP_TOKEN",
            ) from None

    def not_running(self, why: str) -> Failure:
        """Return the failure that says what to type."""
        if self._url:
            return Failure(Exit.NOT_RUNNING, f"turnkeepd is not running: {why}. Check --url or TURNKEEP_URL.")
        where = f" --data-dir {self._data_dir}" if self._data_dir else ""
        return Failure(Exit.NOT_RUNNING, f"turnkeepd is not running: {why}. Start it with: turnkeepd{where}")

    def _url_left_by_the_daemon(self) -> str:
        file = self.data_dir / "daemon.json"
        try:
            left = json.loads(file.read_text(encoding="utf-8"))
            url, daemon = str(left["url"]), (int(left["pid"]), float(left["started"]), str(left["boot"]))
        except FileNotFoundError:
            raise self.not_running(f"there is no {file}") from None
        except (OSError, ValueError, KeyError, TypeError):
            raise self.not_running(f"{file} says nothing that can be used") from None
        from transports.runner import Fate, ProcessIdentity

        # Whoever has the port now would be shown the admin key.
        if ProcessIdentity(*daemon).fate() in (Fate.GONE, Fate.REUSED):
            raise self.not_running(f"the one that left {file} (pid {daemon[0]}) has ended")
        return url


def _websocket(url: str) -> str:
    """Return the WebSocket address of /admin on a server that is named by its HTTP or WebSocket address."""
    scheme, _, rest = url.rstrip("/").partition("://")
    if not rest:
        scheme, rest = "http", scheme
    scheme = {"http": "ws", "https": "wss"}.get(scheme, scheme)
    return f"{scheme}://{rest.removesuffix('/admin')}/admin"
