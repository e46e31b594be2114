"""One socket's actor: performs what its machine decides, and holds who waits for which result."""

from typing import Any

import structlog

from actors.exceptions import RuntimeFault
from actors.messages.base import Message
from actors.messages.lifecycle import DeadLetterReason, DownReason
from actors.messages.link import (
    ActionPerformed,
    CatchUp,
    CloseLink,
    CloseWire,
    DescribeLink,
    HandshakeTimedOut,
    InterruptAsked,
    InterruptPassedOn,
    LinkState,
    PlatformDescribed,
    SendAction,
)
from actors.messages.relay import DescribePlatform, InterruptSession, LinkInfo, PerformAction, Result
from actors.messages.rows import PeerRole, PeerRow
from actors.relay import link_state as states
from actors.relay import results
from actors.relay.link_decisions import HANDSHAKE_TIMER, step
from actors.relay.settings import RelaySettings
from actors.runtime import DEFERRED, Actor, Address, Ref, Reply

log = structlog.get_logger("turnkeep.relay")

GOING_DOWN = 1012
INTERRUPTS_MAX = 64
"""Sessions that one link may have looked for at once."""


class Link(Actor):
    """The relay contract on one socket, in whichever role the peer has."""

    kind = "link"

    def __init__(
        self,
        peer: PeerRow,
        role: PeerRole,
        link_gen: int,
        *,
        wire: Address,
        owner: Ref,
        relays: Ref,
        settings: RelaySettings,
    ) -> None:
        self._state = states.State(peer=peer, role=role, link_gen=link_gen)
        self._wire = wire
        self._owner = owner
        self._relays = relays
        self._settings = settings
        # Who waits for the result of which request of ours.
        self._askers: dict[str, Reply[Result]] = {}
        # Who waits for the link's end.
        self._closers: list[Reply[None]] = []
        self._requests = 0
        # Keys of the sessions that are being looked for to be interrupted.
        self._interrupting: set[str] = set()

    async def on_start(self) -> None:
        """Give the handshake its time."""
        self.ctx.set_timer(HANDSHAKE_TIMER, self._settings.handshake_s, HandshakeTimedOut())

    async def on_receive(self, message: Any) -> Any:
        """Serve the owner, or hand what the socket said to the machine."""
        match message:
            case SendAction():
                return self._send(message)
            case CloseLink():
                return self._close(message)
            case DescribeLink():
                return self._describe()
            case CatchUp():
                return None
            case InterruptAsked():
                self._pass_on(message)
            case InterruptPassedOn(session_key=session_key):
                self._interrupting.discard(session_key)
            case _:
                self._decide(message)
        return None

    async def on_stop(self, reason: DownReason) -> None:
        """Close the socket; nobody is left to wait for."""
        for reply in self._askers.values():
            # Whether its frame was written can't be waited for any more.
            reply.set(results.closed(ambiguous=True))
        self._tell(self._wire, CloseWire(code=GOING_DOWN, reason="shutting down"))
        for closer in self._closers:
            closer.set(None)

    # Requests of the owner

    def _send(self, message: SendAction) -> Any:
        reply = self.ctx.defer()
        self._requests += 1
        request_id = f"{self._state.link_gen:016x}{self._requests:016x}"
        if reply is not None:
            self._askers[request_id] = reply
        self._decide(states.SendAsked(request_id, message.action, message.platform, message.bot_id))
        return DEFERRED

    def _close(self, message: CloseLink) -> Any:
        if self._state.phase is LinkState.CLOSED:
            return None
        reply = self.ctx.defer()
        if reply is not None:
            self._closers.append(reply)
        budget = self.ctx.budget or self.ctx.within(self._settings.disconnect_s)
        grace = max(0.0, budget.remaining() - self._settings.close_s)
        self._decide(states.CloseAsked(message.code, message.reason, grace))
        return DEFERRED

    def _describe(self) -> LinkInfo:
        state = self._state
        platforms = [platform for platform, _ in state.identities] or [d.platform for d in state.descriptors]
        return LinkInfo(
            peer=state.peer.name,
            role=state.role.value,
            link_gen=state.link_gen,
            state=state.phase.name.lower(),
            platforms=tuple(dict.fromkeys(platforms)),
            pending=state.unanswered,
        )

    # What the machine decides

    def _decide(self, event: states.Event) -> None:
        before = self._state.phase
        self._state, effects = step(self._state, event, self.ctx.now(), self._settings)
        if self._state.phase is not before:
            log.debug("link.phase", path=self.ctx.path, phase=self._state.phase.name.lower())
        for effect in effects:
            self._perform(effect)

    def _perform(self, effect: states.Effect) -> None:
        match effect:
            case states.Write(message=message):
                self._tell(self._wire, message)
            case states.Resolve(request_id=request_id, result=result):
                asker = self._askers.pop(request_id, None)
                if asker is not None:
                    asker.set(result)
            case states.ArmTimer(key=key, delay=delay, message=message):
                self.ctx.set_timer(key, delay, message)
            case states.CancelTimer(key=key):
                self.ctx.cancel_timer(key)
            case states.TellOwner(message=message):
                self._tell(self._owner, message)
            case states.Describe(platform=platform):
                self._ask_descriptor(platform)
            case states.Perform():
                self._ask_performance(effect)
            case states.Bury(message_type=message_type, reason=reason):
                self.ctx.system.dead_letters.add(self.ctx.path, message_type, reason)
            case states.Publish(kind=kind, data=data):
                self.ctx.publish(kind, **data)
            case states.End():
                self.ctx.stop()

    def _ask_descriptor(self, platform: str) -> None:
        self.ctx.pipe(
            self._relays.ask(
                DescribePlatform(platform=platform), self.ctx.within(self._settings.handshake_s)
            ),
            lambda descriptor: PlatformDescribed(platform=platform, descriptor=descriptor),
            lambda error: PlatformDescribed(platform=platform, descriptor=None),
        )

    def _ask_performance(self, effect: states.Perform) -> None:
        request = PerformAction(
            gateway=self._state.peer.name,
            platform=effect.platform,
            bot_id=effect.bot_id,
            action=effect.action,
        )
        self.ctx.pipe(
            self._relays.ask(request, self.ctx.within(self._settings.outbound_s)),
            lambda result: ActionPerformed(request_id=effect.request_id, result=result),
            lambda error: ActionPerformed(request_id=effect.request_id, result=results.of_error(error)),
        )

    def _pass_on(self, message: InterruptAsked) -> None:
        """Let a session be interrupted; one that is being looked for already hears of it once."""
        key = message.session_key
        if key in self._interrupting:
            return
        if len(self._interrupting) >= INTERRUPTS_MAX:
            self.ctx.system.dead_letters.add(self.ctx.path, "InterruptAsked", DeadLetterReason.REFUSED)
            return
        self._interrupting.add(key)
        request = InterruptSession(peer=self._state.peer.name, session_key=key, chat_id=message.chat_id)
        self.ctx.pipe(
            self._relays.ask(request, self.ctx.within(self._settings.store_s)),
            lambda _: InterruptPassedOn(session_key=key),
            lambda error: InterruptPassedOn(session_key=key),
        )

    def _tell(self, receiver: Address, message: Message) -> None:
        try:
            receiver.tell(message)
        except RuntimeFault:
            # The socket, or the owner, is gone: its end is on the way here.
            log.debug("link.untold", path=self.ctx.path, message=type(message).__name__)
