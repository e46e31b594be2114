"""How long a request waits for what its turn says next."""

import aiohttp

from tests.acceptance.conftest import Api
from tests.clock import StillClock
from tests.fakes.backend_script import Done, Finish, Hold, Role, Text


async def test_each_piece_begins_the_wait_anew_and_each_wait_ends_in_one_keepalive(boot, backend):
    clock = StillClock()
    harness = await boot(clock=clock, **{"server.keepalive_s": 10.0})
    backend.script(
        Role(), Text("a"), Hold("b"), Text("b"), Hold("c"), Text("c"), Hold("end"), Finish(), Done()
    )
    async with aiohttp.ClientSession() as session:
        stream = await Api(session, harness).stream("hi")
        assert await stream.until_text() == "a"
        clock.advance(9.0)
        backend.release("b")
        assert await stream.until_text() == "b"
        clock.advance(9.0)
        # Nobody was silent for ten seconds.
        backend.release("c")
        assert await stream.until_text() == "c"
        assert stream.comments == 0
        assert await stream.response.content.readline() == b"\n"
        for count in (1, 2):
            clock.advance(10.0)
            assert (await stream.response.content.readline()).startswith(b":"), count
            assert await stream.response.content.readline() == b"\n"
        backend.release("end")
        await stream.rest()
        assert stream.text == "abc" and stream.comments == 0
