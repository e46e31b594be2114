"""chat: talking to a session from a terminal, or from a pipe."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from transports.terminal.answer import Answer, Step
from transports.terminal.exits import ConnectionLost, Exit, Failure
from transports.terminal.lines import Lines
from transports.terminal.output import DIM, printable, show_json_line, styled
from transports.terminal.patience import Patience, say
from transports.terminal.sessions import DRAINING, print_row
from transports.terminal.verb import Desk, verb

if TYPE_CHECKING:
    from transports.terminal.client import AdminClient

app = typer.Typer()

PROMPT = "you> "
ROWS = 10
"""Rows of the past that are shown at the start, on a terminal."""


class Target(NamedTuple):
    """Which conversation: a session by its id, or else a console chat by its name."""

    session: str | None = None
    chat: str = "main"
    platform: str = "console"


@verb(app, "chat")
async def chat(
    desk: Desk,
    name: Annotated[str, typer.Argument(metavar="CHAT", help="Which of your chats.")] = "main",
    session: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="Any session instead, by its id.")
    ] = None,
    platform: Annotated[
        str,
        typer.Option(
            "--platform", metavar="NAME", help="The platform of which Turnkeep itself is the connector."
        ),
    ] = "console",
    history: Annotated[
        int | None,
        typer.Option("--history", metavar="N", min=0, max=1000, help="Show the last N rows first."),
    ] = None,
) -> None:
    """Talk to a session: Ctrl-C stops the answer, Ctrl-D leaves. From a pipe, each line is a message."""
    talk = Talk(desk, Target(session, name, platform))
    try:
        await talk.begin(history if history is not None else ROWS if talk.interactive else 0)
        async for line in talk.lines():
            await talk.say(line)
    finally:
        await talk.end()
    if talk.failures and not talk.interactive:
        raise Failure(Exit.FAILED, f"{talk.failures} of {talk.said} messages were not answered")


async def converse_once(desk: Desk, target: Target, text: str) -> None:
    """Say one thing and print the answer. Raises Failure if there is none."""
    talk = Talk(desk, target, interactive=False)
    try:
        await talk.begin(0)
        await talk.say(text)
    finally:
        await talk.end()
    if talk.failures:
        raise Failure(Exit.FAILED, "the message was not answered")


class Talk:
    """One conversation. Its message has an id of its own, so that saying it again after a lost connection is harmless."""

    def __init__(self, desk: Desk, target: Target, interactive: bool | None = None) -> None:
        self._desk = desk
        self._target = target
        self.interactive = sys.stdin.isatty() if interactive is None else interactive
        self.said = 0
        self.failures = 0
        # Whether the person pressed Ctrl-C where there was nothing else to stop.
        self.given_up = False
        self._patience = Patience(desk, self._sleep)
        self._client: AdminClient | None = None
        self._session_id = ""
        # The message whose turn runs.
        self._inbox_id: str | None = None
        # Turns that were answered already: what is still said of them belongs to no later message.
        self._past: set[str] = set()
        self._lines = Lines(interactive=self.interactive, prompt=PROMPT)
        # Whether a message is in hand.
        self._talking = False
        self._interrupted = asyncio.Event()
        self._stops: set[asyncio.Task[None]] = set()

    async def begin(self, history: int) -> None:
        """Connect, find the session, and show the end of its history."""
        client = await self._connected()
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._interrupt)
        if self._target.session is not None:
            found = await client.call("sessions.get", session_id=self._target.session)
        else:
            found = await client.call("sessions.open", **self._address())
        self._session_id = found["session"]["session_id"]
        if history:
            past = await client.call("sessions.history", session_id=self._session_id, limit=history)
            for row in past["history"]:
                print_row(row)
        if self.interactive:
            say(styled(f"session {self._session_id}; Ctrl-C stops an answer, Ctrl-D leaves", DIM))

    async def end(self) -> None:
        """Leave."""
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
        for stop in self._stops:
            stop.cancel()
        if self._client is not None:
            await self._client.close()

    async def lines(self) -> AsyncIterator[str]:
        """Yield what is typed or piped in, line by line."""
        while not self.given_up and (line := await self._lines.next()) is not None:
            if line.strip():
                yield line

    async def say(self, text: str) -> None:
        """Send a message and print its answer, over as many connections as it takes."""
        self.said += 1
        message_id = os.urandom(16).hex()
        answer = Answer()
        self._inbox_id = None
        self._interrupted.clear()
        self._talking = True
        done = False
        while not done:
            try:
                done = await self._converse(text, message_id, answer)
            except ConnectionLost:
                await self._drop_connection()
            except _GivenUp:
                self.given_up = done = answer.failed = True
            except Failure as failure:
                if not self.interactive or client_is_lost(self._client):
                    raise
                say(f"turnkeepctl: {failure}")
                done = answer.failed = True
                # The message may still be answered: on another connection that is not heard as a later one's answer.
                await self._drop_connection()
                self._patience = Patience(self._desk, self._sleep)
        self._talking = False
        self._inbox_id = None
        self.failures += answer.failed
        self._finish(answer)

    async def _converse(self, text: str, message_id: str, answer: Answer) -> bool:
        """Send the message, or find its turn again, and print what comes. Return at its end."""
        client = await self._connected()
        if self._inbox_id is None:
            sent = await client.call(
                "sessions.send", **self._address(), text=text, message_id=message_id, watch=True
            )
            self._inbox_id = sent["accepted"]["inbox_id"]
            self._session_id = sent["accepted"]["session_id"]
            if sent["draining"]:
                self._print(Step(note=f"{DRAINING}."))
            if self._interrupted.is_set():
                self._stop_answer()
        else:
            await client.call("sessions.watch", session_id=self._session_id, inbox_id=self._inbox_id)
        while True:
            event = await client.event()
            if not self._concerns(event):
                continue
            step = answer.take(event)
            self._print(step)
            if step.done:
                self._past.add(str(event["data"].get("turn_id")))
                return True

    def _concerns(self, event: dict[str, Any]) -> bool:
        """Say whether an event is about the message in hand."""
        data = event["data"]
        return data.get("turn_id") not in self._past and data.get("inbox_id") in (None, self._inbox_id)

    def _address(self) -> dict[str, str]:
        if self._target.session is not None:
            return {"session_id": self._session_id}
        return {"chat": self._target.chat, "platform": self._target.platform}

    # Connections

    async def _connected(self) -> "AdminClient":
        if self._client is None:
            self._client = await self._patience.connect()
        return self._client

    async def _drop_connection(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def _sleep(self, seconds: float) -> None:
        """Wait between two tries; Ctrl-C ends the wait and the conversation."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._interrupted.wait()
        if self._interrupted.is_set():
            raise _GivenUp

    # Ctrl-C

    def _interrupt(self) -> None:
        if not self.interactive:
            self.given_up = True
            self._lines.give_up()
        elif not self._talking:
            say("\n(Ctrl-D leaves)")
            self._lines.show_again()
        if self._talking and not self._interrupted.is_set():
            self._interrupted.set()
            self._stop_answer()

    def _stop_answer(self) -> None:
        if self._client is not None and self._inbox_id is not None:
            stop = asyncio.create_task(self._stop(self._client, self._inbox_id))
            self._stops.add(stop)
            stop.add_done_callback(self._stops.discard)

    async def _stop(self, client: "AdminClient", inbox_id: str) -> None:
        try:
            await client.call("sessions.stop_turn", session_id=self._session_id, inbox_id=inbox_id)
        except Failure as failure:
            say(f"The answer could not be stopped: {failure}")

    # What is shown

    def _print(self, step: Step) -> None:
        if self._desk.as_json:
            return
        if step.text:
            sys.stdout.write(printable(step.text))
            sys.stdout.flush()
        if step.note:
            say(styled(f"\n{step.note}", DIM) if self.interactive else step.note)

    def _finish(self, answer: Answer) -> None:
        if self._desk.as_json:
            show_json_line({"session_id": self._session_id, "ok": not answer.failed, "text": answer.text})
        else:
            print(flush=True)


def client_is_lost(client: "AdminClient | None") -> bool:
    """Say whether nothing can be asked on it."""
    return client is None or client.lost is not None


class _GivenUp(Exception):
    """Ctrl-C while there is no daemon."""
