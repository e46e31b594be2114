"""REL-6: what a backend says of a failure, and what a lane is configured with, is shown nowhere."""

import asyncio
import json
import sys

import pytest

from tests.admin_wire import AdminWire
from tests.daemon import Daemon
from tests.fakes.chunks import chunk, event
from tests.fakes.parrot import Parrot
from tests.sse import Stream
from tests.terminal import admin_call

KEY = "canary-key-by-value"
"""In everything secret is this word: canary."""

SECRETS = (
    "http://user:canary-password@10.0.0.1/v1?api_key=canary-query Authorization: Bearer canary-bearer-token"
    f" sk-canary0123456789abcdef postgres://role:canary-database@db/x {KEY}"
)


def whole(status, body, *headers, phrase="Odd", kind="application/json"):
    lines = [f"HTTP/1.1 {status} {phrase}", f"content-type: {kind}", f"content-length: {len(body)}", *headers]
    return "\r\n".join([*lines, "connection: close", "", ""]).encode() + body


def refusal(status, *headers, **fields):
    body = {"error": {"message": SECRETS, "type": "odd", "code": "odd", "param": SECRETS, **fields}}
    return whole(status, json.dumps(body).encode(), *headers)


def stream(*pieces, head=()):
    lines = ["HTTP/1.1 200 OK", "content-type: text/event-stream", *head, "connection: close", "", ""]
    return "\r\n".join(lines).encode() + b"".join(pieces)


def chunked(*pieces):
    head = stream(head=("transfer-encoding: chunked",))
    return head + b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)


ROLE = event(chunk({"role": "assistant", "content": ""}))
SAID = event(chunk({"content": "Hel"}))
RAW = SECRETS.encode()


def call(name, **more):
    return event(chunk({"tool_calls": [{"index": 0, "id": "a", "function": {"name": name, **more}}]}))


PLACES = {
    **{f"the message of a {status}": refusal(status) for status in (400, 401, 403, 404, 413, 429, 500, 529)},
    "a code and a type": refusal(400, code=SECRETS, type=SECRETS),
    "an overflow": refusal(400, code="context_length_exceeded"),
    "a text": whole(502, RAW, kind="text/plain"),
    "a page": whole(200, b"<html>" + RAW, kind="text/html"),
    "an error with a 200": whole(200, json.dumps({"error": SECRETS}).encode()),
    "headers": refusal(429, f"retry-after: {SECRETS}", f"x-request-id: {SECRETS}", f"date: {SECRETS}"),
    "a challenge": refusal(401, f'www-authenticate: Bearer realm="{SECRETS}"', f"set-cookie: a={SECRETS}"),
    "a content type": whole(200, RAW, kind=f"text/{SECRETS}"),
    "a reason phrase": whole(500, b"{}", phrase=SECRETS),
    "a redirect": whole(307, b"", f"location: http://127.0.0.1:9/{SECRETS.replace(' ', '%20')}"),
    "no status line": RAW + b"\r\n\r\n",
    "a header without a colon": b"HTTP/1.1 200 OK\r\n" + RAW.replace(b":", b"") + b"\r\n\r\n",
    "a length": b"HTTP/1.1 200 OK\r\ncontent-length: " + RAW + b"\r\n\r\n",
    "an encoding": whole(200, RAW, "content-encoding: gzip"),
    "the length of a chunk": chunked(ROLE, SAID) + RAW + b"\r\n",
    "an error in band": stream(
        ROLE, event({"error": {"message": SECRETS, "type": SECRETS, "code": SECRETS}})
    ),
    "an error in band after text": stream(ROLE, SAID, event({"error": SECRETS})),
    "an error of another shape": stream(ROLE, event({"object": "error", "message": SECRETS, "code": 500})),
    "a rate limit in band": stream(
        ROLE, event({"error": {"code": "rate_limit_exceeded", "message": SECRETS}})
    ),
    "an overflow in band": stream(
        ROLE, event({"error": {"code": "context_length_exceeded", "message": SECRETS}})
    ),
    "an event's name": stream(ROLE, b"event: " + RAW + b"\ndata: {\n\n"),
    "a comment and an id": stream(b": " + RAW + b"\nid: " + RAW + b"\n\n", SAID),
    "a chunk that is no JSON": stream(ROLE, SAID, b"data: " + RAW + b"\n\n"),
    "a chunk of wrong types": stream(ROLE, SAID, event({"choices": [{"index": SECRETS}]})),
    "a line that breaks off": stream(ROLE, SAID, b"data: " + RAW),
    "a finish reason": stream(SAID, event(chunk({}, finish_reason=SECRETS)), b"data: [DONE]\n\n"),
    "fields beside the answer": stream(
        event({**chunk({"content": "x", SECRETS: SECRETS}), "id": SECRETS, "model": SECRETS}),
        event({**chunk({}, finish_reason="stop"), "system_fingerprint": SECRETS}),
        event({**chunk(None), "usage": {"prompt_tokens": 1, SECRETS: 2, "x": SECRETS}}),
        b"data: [DONE]\n\n",
    ),
    "the name of a call that is too long": stream(ROLE, call(SECRETS + "x" * 512)),
    "the name of a call of the wrong type": stream(ROLE, call({"x": SECRETS})),
    "the name of a call that an error follows": stream(
        ROLE, call(SECRETS + "x" * 512), event({"error": {"message": SECRETS}})
    ),
}
"""What a backend says, by where the secrets stand in it."""

CONFIG = """
[[lane]]
name = "keyed"
base_url = "http://127.0.0.1:{port}/v1?api_key=canary-query"
model = "m"
api_key_env = "LANE_KEY"
trailing_s = 0.5

[[lane]]
name = "password"
base_url = "http://user:canary-password@127.0.0.1:{port}/v1"
model = "m"
order = 1
trailing_s = 0.5

[turn]
creation_tries = 2
stream_tries = 2
retry_base_s = 0.0
retry_after_cap_s = 0.001

[log]
level = "info"
"""


class Looked:
    """All that anybody is shown, by where it was seen."""

    def __init__(self):
        self.seen = {}

    def add(self, where, what):
        self.seen[where] = self.seen.get(where, "") + (what if isinstance(what, str) else json.dumps(what))

    def leaks(self):
        """Return where the canary sits, with what is around it."""
        return {
            where: text[max(0, text.index("canary") - 300) : text.index("canary") + 60]
            for where, text in self.seen.items()
            if "canary" in text
        }


@pytest.fixture
async def parrot():
    async with Parrot() as backend:
        yield backend


async def ctl(daemon, *words):
    process = await asyncio.create_subprocess_exec(
        *(
            sys.executable,
            "-c",
            "from bin.ctl import main; main()",
            *words,
            "--data-dir",
            str(daemon.data_dir),
        ),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(30):
        return (await process.communicate())[0].decode()


async def asked(client, daemon, place, looked):
    """Have it said to a client that waits, to one that streams, and to an operator who follows."""
    for streamed in (False, True):
        async with client.post(
            f"{daemon.url}/v1/chat/completions",
            json={"messages": [{"role": "user", "content": "hi"}], "stream": streamed},
            headers={"Authorization": f"Bearer {daemon.api_key}", "X-Session-Id": "c1"},
        ) as response:
            looked.add(place, str(response.headers))
            if streamed and response.status == 200:
                looked.add(place, await Stream(response).rest())
            else:
                looked.add(place, await response.text())


async def followed(daemon, place, looked):
    async with AdminWire(daemon.url, daemon.admin_token) as wire:
        session_id = (await wire.ask("sessions.open", chat="main"))["session"]["session_id"]
        following = await wire.ask("sessions.follow", session_id=session_id)
        looked.add(f"{place}: follow", following)
        await wire.ask("sessions.send", chat="main", text="hi")
        while True:
            told = await wire.event()
            looked.add(f"{place}: follow", told)
            if told["event"] == "turn.state" and told["data"]["state"] in ("idle", "error"):
                break
        looked.add(place, await wire.ask("sessions.history", session_id=session_id))
        return session_id


async def test_rel_6_backend_errors_and_keys_are_shown_nowhere(tmp_path, client, parrot):
    looked = Looked()
    config = CONFIG.format(port=parrot.port)
    async with Daemon(tmp_path / "data", config=config, env={"LANE_KEY": KEY}) as daemon:
        for place, said in PLACES.items():
            before, parrot.answer = parrot.requests, said
            await asked(client, daemon, place, looked)
            session_id = await followed(daemon, place, looked)
            assert parrot.requests >= before + 3, place
        async with AdminWire(daemon.url, daemon.admin_token) as wire:
            await wire.ask("events.subscribe", from_seq=1)
            while (told := await wire.event())["event"] != "events.live":
                looked.add("events", told)
        observer = (await admin_call(daemon, "keys.add", name="o", scopes=["observe"]))["secret"]
        for path in ("/metrics", "/", "/readyz", "/v1/models"):
            for key in (observer, daemon.api_key):
                headers = {"Authorization": f"Bearer {key}"}
                async with client.get(f"{daemon.url}{path}", headers=headers) as response:
                    looked.add(path, await response.text())
        assert "turnkeep_attempts" in looked.seen["/metrics"]
        for words in (
            "status", "ps", "tree", "lanes", "lanes --json", "actors get /lanes/keyed", "events --from 1",
            "actors get /lanes/password --json", "sessions list", f"sessions show {session_id} --json",
            f"sessions history {session_id}", "deliveries", "quarantine list --json",
        ):  # fmt: skip
            looked.add(f"turnkeepctl {words}", await ctl(daemon, *words.split()))
        assert (
            "keyed" in looked.seen["turnkeepctl lanes"]
            and "hi" in looked.seen[f"turnkeepctl sessions history {session_id}"]
        )
        assert await daemon.stop() == 0
    looked.add("the log", daemon.log)
    assert "stream.retry" in daemon.log and "turn.failed" in daemon.log
    for file in (tmp_path / "data").rglob("*"):
        if file.is_file():
            looked.add(f"the data directory: {file.name}", file.read_bytes().decode("latin-1"))
    assert looked.leaks() == {}
