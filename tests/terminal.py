"""One admin request to a running daemon, as any observer would send it."""

import json
from typing import Any

import websockets

from tests.daemon import Daemon


async def admin_call(daemon: Daemon, kind: str, **fields: Any) -> Any:
    """Send a request to /admin and return its result; raise RuntimeError with the error otherwise."""
    headers = {"Authorization": f"Bearer {daemon.admin_token}"}
    url = daemon.url.replace("http", "ws", 1) + "/admin"
    async with websockets.connect(url, additional_headers=headers) as socket:
        await socket.send(json.dumps({"id": 1, "type": kind, **fields}))
        answer = json.loads(await socket.recv())
    if not answer["ok"]:
        raise RuntimeError(answer["error"])
    return answer["result"]
