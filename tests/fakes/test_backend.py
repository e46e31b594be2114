"""The fake backend: as a program that is told what to do over HTTP, and what a plain HTTP client sees of each fault."""

import asyncio
import http.client
import json
import socket
import sys
from urllib.parse import urlsplit

import aiohttp
import pytest

from tests.fakes.backend_faults import FAULTS

SILENCE_SECONDS = 0.3
BODY = json.dumps({"stream": True, "messages": [{"role": "user", "content": "hi"}]})


async def test_it_runs_as_a_program_and_is_scripted_over_http() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.fakes.backend", "--port", "0", stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    url = (await process.stdout.readline()).decode().strip()
    root = url.removesuffix("/v1")
    body = {"stream": True, "messages": [{"role": "user", "content": "hi there"}]}
    try:
        async with aiohttp.ClientSession() as client:
            steps = [{"do": "text", "text": "scripted"}, {"do": "hold", "gate": "g"}, {"do": "done"}]
            await client.post(f"{root}/control/script?when=there", json=steps)
            await client.post(f"{root}/control/release/g")
            first = await (await client.post(f"{url}/chat/completions", json=body)).text()
            second = await (await client.post(f"{url}/chat/completions", json=body)).text()
            requests = await (await client.get(f"{root}/control/requests")).json()
            models = await (await client.get(f"{url}/models")).json()
            nothing = await client.get(f"{root}/elsewhere")
    finally:
        process.terminate()
        await process.wait()
    assert "scripted" in first
    texts = [json.loads(line[6:]) for line in second.splitlines() if line.startswith("data: {")]
    said = [chunk["choices"][0]["delta"].get("content", "") for chunk in texts]
    assert "".join(said) == "reply to: hi there"
    assert second.endswith("data: [DONE]\n\n")
    assert [request["body"] for request in requests] == [body, body]
    assert models["data"][0]["id"] == "fake-model"
    assert nothing.status == 404


def look(url):
    """
    Post one request with the standard library's client; return its status, what is in its body, and how it ended.

    In the body: ``role``, each text between quotes, ``finish:REASON``, ``usage``, ``empty`` for no choices, ``error:CODE``,
    ``done``, ``comment``, ``crlf`` where lines end so, and ``broken`` for what cannot be read.
    """
    parts = urlsplit(url)
    client = http.client.HTTPConnection(parts.hostname, parts.port, timeout=SILENCE_SECONDS)
    status, body, end = None, b"", "whole"
    try:
        client.request("POST", f"{parts.path}/chat/completions", BODY, {"Content-Type": "application/json"})
        response = client.getresponse()
        status = response.status
        while piece := response.read1():
            body += piece
        if response.getheader("connection") == "close":
            end = "closed"
    except http.client.RemoteDisconnected:
        end = "fin"
    except ConnectionResetError:
        end = "rst"
    except http.client.IncompleteRead as error:
        body, end = body + error.partial, "fin"
    except TimeoutError:
        end = "silence"
    finally:
        client.close()
    return status, describe(body), end


def describe(body):
    if body.startswith(b"{"):
        error = json.loads(body)["error"]
        return [error.get("code") or error["message"]]
    said = ["crlf"] if b"\r\n" in body else []
    for line in body.decode().splitlines():
        if line.startswith(":"):
            said.append("comment")
        elif line == "data: [DONE]":
            said.append("done")
        elif line.startswith("data: "):
            said += name(line)
    return said


def name(line):
    try:
        data = json.loads(line[6:])
    except json.JSONDecodeError:
        return ["broken"]
    if "error" in data:
        return ["error:" + (data["error"].get("code") or data["error"]["type"])]
    if "usage" in data:
        return ["usage"]
    if not data["choices"]:
        return ["empty"]
    (choice,) = data["choices"]
    if choice["finish_reason"]:
        return [f"finish:{choice['finish_reason']}"]
    return ["role"] if "role" in choice["delta"] else [f"'{choice['delta']['content']}'"]


BEGUN = "role 'Hel' 'lo'"
WHOLE = f"{BEGUN} finish:stop"

SEEN = {
    "rst before headers": (None, "", "rst"),
    "fin before headers": (None, "", "fin"),
    "silence before headers": (None, "", "silence"),
    **{
        str(status): (status, f"it is {status}", "whole")
        for status in (400, 401, 403, 404, 408, 409, 413, 429, 500, 502, 503, 529)
    },
    "429 with a wish": (429, "it is 429", "whole"),
    "429 that speaks of length": (429, "over the maximum context length for now", "whole"),
    "overflow by code": (400, "context_length_exceeded", "whole"),
    "overflow by message": (400, "This model's maximum context length is 10 tokens.", "whole"),
    "overflow as 413": (413, "The prompt is too long.", "whole"),
    "rst": (200, BEGUN, "rst"),
    "rst at once": (200, "", "rst"),
    "fin": (200, BEGUN, "fin"),
    "rst in mid-line": (200, f"{BEGUN} broken", "rst"),
    "fin in mid-line": (200, f"{BEGUN} broken", "fin"),
    "no finish reason": (200, BEGUN, "whole"),
    "no finish reason and a fin": (200, BEGUN, "closed"),
    "no finish reason and an end mark": (200, f"{BEGUN} done", "whole"),
    "nothing but an end mark": (200, "done", "whole"),
    "silence": (200, BEGUN, "silence"),
    "server_error in band": (200, f"{BEGUN} error:server_error", "whole"),
    "rate_limit_exceeded in band": (200, f"{BEGUN} error:rate_limit_exceeded", "whole"),
    "unknown error in band": (200, f"{BEGUN} error:odd", "whole"),
    "overflow in band": (200, f"{BEGUN} error:context_length_exceeded", "whole"),
    "malformed chunk": (200, f"{BEGUN} broken {WHOLE} done", "whole"),
    "rst after the finish reason": (200, WHOLE, "rst"),
    "fin after the finish reason": (200, WHOLE, "fin"),
    "silence after the finish reason": (200, WHOLE, "silence"),
    "error after the finish reason": (200, f"{WHOLE} error:server_error", "whole"),
    "malformed chunk after the finish reason": (200, f"{WHOLE} broken", "whole"),
    "half a line after the finish reason": (200, f"{WHOLE} broken", "fin"),
    "usage": (200, f"{WHOLE} usage done", "whole"),
    "no usage": (200, f"{WHOLE} done", "whole"),
    "end mark never": (200, f"{WHOLE} usage", "whole"),
    "end mark twice": (200, f"{WHOLE} usage done done", "whole"),
    "two finish reasons": (200, f"{WHOLE} finish:length usage done", "whole"),
    "role late": (200, "'Hel' role 'lo' finish:stop done", "whole"),
    "role never": (200, "'Hel' 'lo' finish:stop done", "whole"),
    "empty choices": (200, "empty role 'Hel' empty 'lo' finish:stop done", "whole"),
    "crlf": (200, f"crlf {WHOLE} done", "whole"),
    "comments": (200, f"comment {BEGUN} comment finish:stop done", "whole"),
    "dripped": (200, f"{WHOLE} done", "whole"),
    "dripped with crlf": (200, f"crlf {WHOLE} done", "whole"),
    "framed by the fin": (200, f"{WHOLE} done", "closed"),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_plain_client_sees_each_fault(backend, fault):
    backend.script(*FAULTS[fault])
    status, said, end = await asyncio.to_thread(look, backend.url)
    assert (status, " ".join(said), end) == SEEN[fault]


async def test_a_refusal_can_ask_for_a_wait(backend):
    backend.script(*FAULTS["429 with a wish"])
    async with (
        aiohttp.ClientSession() as client,
        client.post(f"{backend.url}/chat/completions", data=BODY) as response,
    ):
        assert response.headers["retry-after"] == "7"


def pieces(url):
    """Post one request over a bare socket; return how the body of the answer was cut into chunks of HTTP."""
    parts = urlsplit(url)
    head = f"POST {parts.path}/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(BODY)}\r\n\r\n"
    with socket.create_connection((parts.hostname, parts.port), timeout=5) as connection:
        connection.sendall(f"{head}{BODY}".encode())
        received = b""
        while not received.endswith(b"\r\n0\r\n\r\n"):
            received += connection.recv(65536)
    sizes, rest = [], received.partition(b"\r\n\r\n")[2]
    while size := int(rest.partition(b"\r\n")[0], 16):
        sizes.append(size)
        rest = rest.partition(b"\r\n")[2][size + 2 :]
    return sizes


async def test_what_is_dripped_comes_byte_by_byte(backend):
    backend.script(*FAULTS["dripped"])
    sizes = await asyncio.to_thread(pieces, backend.url)
    assert len(sizes) > 500 and set(sizes) == {1}
