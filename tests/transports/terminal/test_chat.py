"""chat: from a pipe and on a terminal, over connections and daemons that come and go."""

import asyncio
import contextlib
import json
import os
import pty
import signal
import sqlite3
import sys
from typing import Self

import pytest

from actors.messages.lifecycle import Resume, Suspend
from actors.messages.store import ListSessions, ListTurns, ReadHistory
from tests.cut import Cable
from tests.daemon import Daemon
from tests.fakes.backend_script import Die, Hold, Reply, Role, Text, answer
from tests.harness import until
from tests.terminal import admin_call
from tests.transports.terminal.conftest import SECONDS, ctl


class Terminal:
    """turnkeepctl with a terminal of its own."""

    def __init__(self, *words: str) -> None:
        self._words = words
        self.seen = ""
        self._more = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._master, slave = pty.openpty()
        clean = {key: value for key, value in os.environ.items() if not key.startswith("TURNKEEP_")}
        self.process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            "from bin.ctl import main; main()",
            *self._words,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**clean, "TERM": "dumb"},
            start_new_session=True,
        )
        os.close(slave)
        asyncio.get_running_loop().add_reader(self._master, self._read)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()
        asyncio.get_running_loop().remove_reader(self._master)
        os.close(self._master)

    def _read(self) -> None:
        try:
            self.seen += os.read(self._master, 65536).decode()
        except OSError:
            # The other end has gone.
            asyncio.get_running_loop().remove_reader(self._master)
        self._more.set()

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    async def sees(self, text: str) -> None:
        """Wait until ``text`` is shown, and forget what was shown up to it."""
        async with asyncio.timeout(SECONDS):
            while text not in self.seen:
                self._more.clear()
                await self._more.wait()
        self.seen = self.seen.partition(text)[2]

    async def ended(self) -> int:
        async with asyncio.timeout(SECONDS):
            return await self.process.wait()


class Pipe:
    """chat with a pipe that stays open between lines."""

    def __init__(self, *words: str) -> None:
        self._words = words

    async def __aenter__(self) -> Self:
        self.process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            "from bin.ctl import main; main()",
            *self._words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.communicate(b"")

    def line(self, text: str) -> None:
        self.process.stdin.write(f"{text}\n".encode())

    async def answer(self) -> str:
        async with asyncio.timeout(SECONDS):
            return (await self.process.stdout.readline()).decode().rstrip("\n")

    async def rest(self) -> tuple[int, str, str]:
        async with asyncio.timeout(SECONDS):
            out, err = await self.process.communicate(b"")
        return self.process.returncode, out.decode(), err.decode()


@pytest.fixture
def words(harness):
    return ("--url", harness.url, "--token", harness.admin_token)


async def history(harness):
    rows = []
    for session in await harness.ask("/store", ListSessions()):
        rows += await harness.ask("/store", ReadHistory(session_id=session.session_id))
    return [(row.role, row.content) for row in rows if row.kind == "message"]


# From a pipe


async def test_each_line_is_answered_before_the_next_is_sent(harness, words):
    ran = await ctl("chat", *words, stdin="one\n\n  \ntwo")
    assert (ran.code, ran.out, ran.err) == (0, "reply to: one\nreply to: two\n", "")
    assert await history(harness) == [
        ("user", "one"),
        ("assistant", "reply to: one"),
        ("user", "two"),
        ("assistant", "reply to: two"),
    ]


async def test_a_chat_goes_on_where_it_was_and_shows_its_end(harness, words):
    await ctl("chat", *words, "work", stdin="one\n")
    ran = await ctl("chat", *words, "work", "--history", "1", stdin="")
    assert ran.code == 0 and "reply to: one" in ran.out and "user" not in ran.out
    (session,) = await harness.ask("/store", ListSessions())
    ran = await ctl("chat", *words, "--session", session.session_id[:20], stdin="two\n")
    assert ran.out == "reply to: two\n"
    assert len(await harness.ask("/store", ListSessions())) == 1


async def test_for_programs_each_answer_is_one_object(words):
    ran = await ctl("chat", *words, "--json", stdin="one\ntwo\n")
    answers = [json.loads(line) for line in ran.out.splitlines()]
    assert [(one["ok"], one["text"]) for one in answers] == [(True, "reply to: one"), (True, "reply to: two")]


async def test_a_message_without_an_answer_makes_it_fail(backend, words):
    backend.script(Reply(400, {"error": {"message": "canary"}}))
    ran = await ctl("chat", *words, stdin="one\ntwo\n")
    assert ran.code == 1 and ran.out.endswith("reply to: two\n")
    assert "1 of 2 messages were not answered" in ran.err and "canary" not in ran.err


async def test_what_was_shown_before_a_failure_stays_shown(backend, words):
    backend.script(Role(), Text("Half"), Die("rst"), times=3)
    ran = await ctl("chat", *words, stdin="one\n")
    assert ran.code == 1 and ran.out.split() == ["Half"] * 3
    assert "(1/2)" in ran.err and "(2/2)" in ran.err and "did not recover it" in ran.err


async def test_an_answer_that_begins_again_begins_a_line(backend, words):
    backend.script(Role(), Text("Half"), Die("rst"))
    ran = await ctl("chat", *words, stdin="one\n")
    assert (ran.code, ran.out) == (0, "Half\nreply to: one\n")


async def test_no_such_session(words):
    ran = await ctl("chat", *words, "--session", "nope", stdin="one\n")
    assert ran.code == 4 and "there is no session nope" in ran.err


async def test_sending_with_wait_prints_the_answer(harness, backend, words):
    await ctl("chat", *words, stdin="")
    (session,) = await harness.ask("/store", ListSessions())
    ran = await ctl("sessions", "send", session.session_id, "one", "--wait", *words)
    assert (ran.code, ran.out) == (0, "reply to: one\n")
    backend.script(Reply(400, {}))
    ran = await ctl("sessions", "send", session.session_id, "two", "--wait", *words)
    assert ran.code == 1


async def test_ctrl_c_stops_the_answer_and_ends_a_pipe(harness, backend, words):
    backend.script(Role(), Text("Hel"), Hold("never"))
    async with Pipe("chat", *words) as chat:
        chat.line("one")
        chat.line("two")
        await until(lambda: running(harness))
        chat.process.send_signal(signal.SIGINT)
        code, _, err = await chat.rest()
        assert code == 1 and "Stopped." in err
    turns = await harness.ask("/store", ListTurns())
    assert [turn.state for turn in turns] == ["cancelled"]


async def test_ctrl_c_ends_a_pipe_that_waits_for_a_line(harness, words):
    async with Pipe("chat", *words) as chat:
        chat.line("one")
        assert await chat.answer() == "reply to: one"
        chat.process.send_signal(signal.SIGINT)
        async with asyncio.timeout(SECONDS):
            assert await chat.process.wait() == 0
        assert await chat.process.stderr.read() == b""


async def test_a_chat_of_another_platform(harness, words):
    ran = await ctl("chat", *words, "--platform", "discord", "c1", stdin="one\n")
    assert ran.out == "reply to: one\n"
    (session,) = await harness.ask("/store", ListSessions())
    assert session.session_key == "agent:main:discord:dm:c1"


async def running(harness):
    turns = await harness.ask("/store", ListTurns())
    return turns and turns[0].state == "running" and turns[0].partial == "Hel"


# Over lost connections


async def test_what_the_daemon_accepted_is_not_sent_again_when_its_answer_got_lost(harness):
    async with (
        Cable(int(harness.url.rsplit(":", 1)[1])) as cable,
        Pipe("chat", "--url", cable.url, "--token", harness.admin_token) as chat,
    ):
        chat.line("zero")
        assert await chat.answer() == "reply to: zero"
        cable.hold()
        chat.line("one")
        await until(lambda: answered(harness, "reply to: one"))
        cable.cut()
        cable.release()
        assert await chat.answer() == "reply to: one"
        code, out, err = await chat.rest()
        assert (code, out) == (0, "") and cable.count == 2
        assert "The connection to turnkeepd is lost" in err and "Connected again." in err
    assert [text for role, text in await history(harness) if role == "user"] == ["zero", "one"]


async def answered(harness, text):
    return ("assistant", text) in await history(harness)


async def test_an_answer_goes_on_over_a_new_connection_without_a_word_twice(harness, backend):
    backend.script(Role(), Text("Hel"), Hold("go"), *answer("lo wor"), when="one")
    async with (
        Cable(int(harness.url.rsplit(":", 1)[1])) as cable,
        Pipe("chat", "--url", cable.url, "--token", harness.admin_token) as chat,
    ):
        chat.line("one")
        async with asyncio.timeout(SECONDS):
            assert await chat.process.stdout.readexactly(3) == b"Hel"
        cable.cut()
        await until(lambda: cable.count == 2)
        backend.release("go")
        assert await chat.answer() == "lo wor"
        assert (await chat.rest())[0] == 0


@pytest.fixture
async def daemon(tmp_path, backend):
    """A daemon of its own, to be killed; its successor listens on another port."""
    lane = f'[[lane]]\nname = "fake"\nbase_url = "{backend.url}"\nmodel = "fake-1"\n'

    def run(rest=""):
        return Daemon(tmp_path / "data", config=lane + "[turn]\nflush_s = 0.0\n" + rest)

    return run


async def said(daemon):
    rows = []
    for session in (await admin_call(daemon, "sessions.list"))["sessions"]:
        rows += (await admin_call(daemon, "sessions.history", session_id=session["session_id"]))["history"]
    return [row["content"] for row in rows if row["role"] == "user"]


async def test_a_daemon_that_was_killed_and_came_back_is_found_again(daemon):
    async with daemon() as first, Pipe("chat", "--data-dir", str(first.data_dir)) as chat:
        chat.line("one")
        assert await chat.answer() == "reply to: one"
        await first.kill()
        async with daemon() as second:
            chat.line("two")
            assert await chat.answer() == "reply to: two"
            code, _, err = await chat.rest()
            assert code == 0 and "Connected again." in err
            assert await said(second) == ["one", "two"]


async def test_a_daemon_that_drains_is_said_to_and_its_next_start_answers(daemon, backend):
    async with daemon() as first:
        here = ("--data-dir", str(first.data_dir))
        assert (await admin_call(first, "system.info"))["draining"] is False
        assert "state           takes turns\n" in (await ctl("status", *here)).out
        await admin_call(first, "system.drain")
        await until(lambda: draining(first))
        assert "state           draining: takes no new turn\n" in (await ctl("status", *here)).out
        async with Pipe("chat", *here) as chat:
            chat.line("one")
            await until(lambda: asked(first))
            assert backend.exchanges == []
            await admin_call(first, "system.shutdown")
            assert await first.ended() == 0
            async with daemon():
                assert await chat.answer() == "reply to: one"
                code, _, err = await chat.rest()
                assert code == 0 and "turnkeepd is draining: the message is kept" in err


async def draining(daemon):
    return (await admin_call(daemon, "system.info"))["draining"]


async def asked(daemon):
    """Say whether a message waits."""
    return any(row["queued"] for row in (await admin_call(daemon, "sessions.list"))["sessions"])


@pytest.mark.parametrize(
    ("policy", "code", "out"),
    [
        ("report", 1, "Hel\n\n[interrupted by restart]\n"),
        ("retry", 0, "Hel\nreply to: one\n"),
    ],
)
async def test_a_turn_that_a_kill_cut_off_comes_to_its_end(daemon, backend, policy, code, out):
    backend.script(Role(), Text("Hel"), Hold("never"))
    settings = f'[session]\non_restart = "{policy}"\n'
    async with daemon(settings) as first, Pipe("chat", "--data-dir", str(first.data_dir)) as chat:
        chat.line("one")
        async with asyncio.timeout(SECONDS):
            shown = await chat.process.stdout.readexactly(3)
        await until(lambda: flushed(first))
        await first.kill()
        async with daemon(settings) as second:
            ended, rest, err = await chat.rest()
            assert (ended, shown.decode() + rest) == (code, out)
            assert ("The turn ended interrupted" in err) is (policy == "report")
            assert await said(second) == ["one"]


async def flushed(daemon):
    """Say whether the store holds what the turn has shown so far."""
    database = sqlite3.connect(daemon.data_dir / "turnkeep.db")
    with contextlib.closing(database):
        return database.execute("SELECT 1 FROM turns WHERE partial = 'Hel'").fetchone()


# On a terminal


async def test_on_a_terminal_the_answer_comes_as_it_is_made(backend, words):
    backend.script(Role(), Text("Hel"), Hold("go"), *answer("lo"))
    async with Terminal("chat", *words) as terminal:
        await terminal.sees("you> ")
        terminal.type("one\n")
        await terminal.sees("Hel")
        backend.release("go")
        await terminal.sees("lo")
        await terminal.sees("you> ")
        terminal.type("\x04")
        assert await terminal.ended() == 0


async def test_on_a_terminal_ctrl_c_stops_the_answer_and_nothing_else(harness, backend, words):
    backend.script(Role(), Text("Hel"), Hold("never"))
    async with Terminal("chat", *words) as terminal:
        await terminal.sees("you> ")
        terminal.process.send_signal(signal.SIGINT)
        await terminal.sees("Ctrl-D leaves)")
        await terminal.sees("you> ")
        terminal.type("o")
        await terminal.sees("o")
        terminal.process.send_signal(signal.SIGINT)
        await terminal.sees("Ctrl-D leaves)")
        # What was typed is still going to be sent, so it is to be seen.
        await terminal.sees("you> o")
        terminal.type("ne\n")
        await terminal.sees("Hel")
        terminal.process.send_signal(signal.SIGINT)
        await terminal.sees("Stopped.")
        await terminal.sees("you> ")
        terminal.type("two\n")
        await terminal.sees("reply to: two")
        await terminal.sees("you> ")
        terminal.type("\x04")
        assert await terminal.ended() == 0


async def test_on_a_terminal_a_refusal_does_not_end_the_conversation(harness, backend, words):
    async with Terminal("chat", *words, "--timeout", "0.5") as terminal:
        await terminal.sees("you> ")
        await harness.ask("/admin", Suspend())
        terminal.type("one\n")
        await terminal.sees("no answer within 0.5 s")
        await terminal.sees("you> ")
        await harness.ask("/admin", Resume())
        terminal.type("two\n")
        await terminal.sees("reply to: two")
        await terminal.sees("you> ")
        terminal.type("\x04")
        assert await terminal.ended() == 0


async def test_on_a_terminal_the_past_is_shown_first(words):
    await ctl("chat", *words, stdin="one\n")
    async with Terminal("chat", *words) as terminal:
        await terminal.sees("one")
        await terminal.sees("reply to: one")
        await terminal.sees("you> ")
        terminal.type("\x04")
        assert await terminal.ended() == 0
