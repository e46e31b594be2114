"""Admission: a request's message is kept, with its chat, session and receipt, before anything is sent."""

import asyncio

import msgspec
import structlog

from actors.exceptions import OutcomeUnknown, RuntimeFault, TurnkeepError
from actors.keep import keep
from actors.messages.rows import Accepted, Origin, TurnRow
from actors.messages.session import InboxReady, StopTurn
from actors.messages.store import AcceptMessage, FindBindings, GetTurn, RotateChat, Write
from actors.runtime import Budget, Reply
from transports.front.completion_request import CompletionRequest
from transports.front.edges import Edges
from transports.front.errors import ApiError, outcome_unknown
from transports.front.watch import Watch

log = structlog.get_logger("turnkeep.front")


class Chat(msgspec.Struct, frozen=True, kw_only=True):
    """The chat that a request is about."""

    token: str
    owner: str
    """The API key's owner: each has chats of its own."""

    @property
    def peer(self) -> str:
        """The name space of its owner's chats."""
        return f"api:{self.owner}"


class Intake:
    """Writes to the store what a request asks for."""

    def __init__(self, edges: Edges) -> None:
        self._edges = edges

    async def keep(
        self,
        chat: Chat,
        request: CompletionRequest,
        lane: str | None,
        *,
        afresh: bool,
        detached: bool,
        budget: Budget,
    ) -> Watch:
        """
        Keep the message in one transaction and return a watch over its turn; without ``lane`` the first one serves it.

        ``afresh`` binds the chat to a new session first. Raises TurnkeepError if nothing was kept, ApiError
        ``outcome_unknown`` if nobody can say.
        """
        new_id = self._edges.system.new_id
        message = AcceptMessage(
            inbox_id=new_id(),
            origin=Origin.API,
            peer=chat.peer,
            scope=None,
            session_key=chat.token,
            new_session_id=new_id(),
            entries=request.entries,
            seed=request.seed,
            params=request.params if lane is None else {**request.params, "model": lane},
            detached=detached,
            turn_id=new_id(),
            rotate=afresh,
            max_queued=self._edges.settings.max_queued,
            at=self._edges.system.clock.wall(),
        )

        try:
            session_id = await self._write(message, budget)
        except (ApiError, asyncio.CancelledError):
            # Nobody can say, or nobody is left to be told: the front's server has ended.
            self._follow_up(message)
            raise
        assert message.turn_id is not None
        return Watch(self._edges, session_id=session_id, inbox_id=message.inbox_id, turn_id=message.turn_id)

    async def rotate(self, chat: Chat, budget: Budget) -> None:
        """Bind the chat to a fresh session, without a message (API-8). Raises as ``keep`` does."""
        rotation = RotateChat(
            peer=chat.peer,
            scope=None,
            session_key=chat.token,
            new_session_id=self._edges.system.new_id(),
            at=self._edges.system.clock.wall(),
        )

        await self._write(rotation, budget)

    async def bound_sessions(self, chat: Chat, budget: Budget) -> tuple[str, ...]:
        """Return the sessions that answer for the chat now."""
        question = FindBindings(peer=chat.peer, session_key=chat.token)
        bindings = await self._edges.store.ask(question, budget.at_most(self._edges.settings.store_s))
        return tuple(binding.session_id for binding in bindings)

    def supersede(self, sessions: tuple[str, ...]) -> None:
        """Stop what still runs in the sessions that a chat has left (API-9)."""
        for session_id in sessions:
            try:
                self._edges.sessions.tell(StopTurn(session_id=session_id, by="superseded"))
            except RuntimeFault as fault:
                log.warning("front.not_superseded", session_id=session_id, error=type(fault).__name__)

    def _follow_up(self, message: AcceptMessage) -> None:
        """
        See to a message that nobody waits for and that may be kept all the same.

        Unseen by its session it would wait until somebody writes to its chat again, and be turned for nobody then.
        """
        # The store serves in order: what it had begun is done before it reads.
        asked = self._edges.store.ask(
            GetTurn(turn_id=message.turn_id), self._edges.within(self._edges.settings.request_s)
        )

        def tell(answered: Reply[TurnRow | None]) -> None:
            try:
                turn = answered.result()
                if turn is None:
                    return
                self._edges.sessions.tell(
                    InboxReady(session_id=turn.session_id)
                    if message.detached
                    else StopTurn(session_id=turn.session_id, inbox_id=message.inbox_id, by="client_gone")
                )
            except TurnkeepError as error:
                log.warning("front.not_followed_up", turn_id=message.turn_id, error=type(error).__name__)

        asked.on_done(tell)

    async def _write(self, write: Write[Accepted], budget: Budget) -> str:
        """Write and return the id of the session."""
        try:
            accepted = await keep(self._edges.store, write, budget.at_most(self._edges.settings.store_s))
        except OutcomeUnknown:
            raise outcome_unknown() from None
        return accepted.session_id
