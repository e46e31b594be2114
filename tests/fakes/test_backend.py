"""The fake backend as a program, told what to do over HTTP."""

import asyncio
import json
import sys

import aiohttp


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
