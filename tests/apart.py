"""The daemon as a process, with the harness' face: a test of it runs through either."""

import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from actors.messages.store import ListSessions, ListTurns, ReadHistory
from storage import history, sessions, turns
from tests.daemon import Daemon

_READERS: Mapping[type, Any] = {
    ListSessions: sessions.list_sessions,
    ListTurns: turns.list_turns,
    ReadHistory: history.read_history,
}
"""What a test may ask of the database while a daemon owns it."""


class Apart(Daemon):
    """One run of turnkeepd, set as a harness is: by dotted names and a list of lanes."""

    def __init__(self, data_dir: Path, **settings: Any) -> None:
        super().__init__(data_dir, config=toml(settings))

    async def start(self, *, env: Mapping[str, str] | None = None) -> Self:
        """Start it and wait until it says that it is ready."""
        await super().start(env=env)
        return self

    @property
    def api_headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.api_key}"}

    async def ask(self, path: str, request: Any) -> Any:
        """Answer what /store would, from its file."""
        assert path == "/store"
        connection = sqlite3.connect(f"file:{self.data_dir / 'turnkeep.db'}?mode=ro", uri=True)
        connection.row_factory = sqlite3.Row
        try:
            return _READERS[type(request)](connection, request)
        finally:
            connection.close()


def toml(settings: Mapping[str, Any]) -> str:
    """Return a configuration file with these settings, by dotted names."""
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items() if key != "lane"]
    for lane in settings.get("lane", ()):
        lines += ["", "[[lane]]", *(f"{key} = {json.dumps(value)}" for key, value in lane.items())]
    return "\n".join(lines) + "\n"
