"""/admin: looks at the scope, carries the request out beside its mailbox, and leaves a trace of each change."""

from typing import Any

import structlog

from actors.admin.actor_verbs import ACTOR_VERBS
from actors.admin.edges import Call, Edges, Verb
from actors.admin.key_verbs import KEY_VERBS
from actors.admin.lane_verbs import LANE_VERBS
from actors.admin.peer_verbs import PEER_VERBS
from actors.admin.quarantine_verbs import QUARANTINE_VERBS
from actors.admin.scope import demand
from actors.admin.session_verbs import SESSION_VERBS
from actors.admin.settings import AdminSettings
from actors.admin.system_verbs import SYSTEM_VERBS
from actors.exceptions import Busy, HandlerFailed, Refusal, TurnkeepError
from actors.messages.admin import AdminRequest, Answer, Perform
from actors.messages.rows import KeyRow
from actors.runtime import DEFERRED, Actor, Reply

log = structlog.get_logger("turnkeep.admin")

REQUEST_SECONDS = 30.0
"""The budget of a request that was told instead of asked."""

VERBS: dict[type[AdminRequest], Verb] = {
    **ACTOR_VERBS,
    **SESSION_VERBS,
    **LANE_VERBS,
    **PEER_VERBS,
    **KEY_VERBS,
    **QUARANTINE_VERBS,
    **SYSTEM_VERBS,
}
"""Everything but a connection's own business: what it subscribes to."""


class Admin(Actor):
    """Each request is a task of its own: a slow one delays no other, and one that fails ends alone."""

    kind = "admin"

    def __init__(self, *, edges: Edges, settings: AdminSettings) -> None:
        self._edges = edges
        self._settings = settings
        self._under_way = 0

    async def on_receive(self, message: Any) -> Any:
        """Begin a request."""
        if not isinstance(message, Perform):
            return None
        request, caller = message.request, message.caller
        self.ctx.system.failpoints.hit("admin.perform")
        try:
            self._admit(request, caller)
        except Refusal as refusal:
            self._audit(request, caller, refusal.code)
            raise
        call = Call(
            caller=caller,
            watcher=message.watcher,
            budget=self.ctx.budget or self.ctx.within(REQUEST_SECONDS),
            edges=self._edges,
            settings=self._settings,
        )
        self._under_way += 1
        self.ctx.run(self._carry_out(request, call, self.ctx.defer()), request.type)
        return DEFERRED

    def _admit(self, request: AdminRequest, caller: KeyRow) -> None:
        demand(request, caller)
        if self._under_way >= self._settings.under_way:
            raise Busy(f"{self._under_way} admin requests are under way; try again")

    async def _carry_out(self, request: AdminRequest, call: Call, reply: Reply[Answer] | None) -> None:
        try:
            answer = await VERBS[type(request)](request, call)
        except TurnkeepError as error:
            result = error.code if isinstance(error, Refusal) else type(error).__name__
            self._audit(request, call.caller, result)
            if reply is not None:
                reply.set_exception(error)
        except Exception as error:
            # It ends alone: the other requests under way are not to blame for it.
            name = type(error).__name__
            log.error("admin.verb_failed", type=request.type, error=name)
            self._audit(request, call.caller, name)
            if reply is not None:
                reply.set_exception(HandlerFailed(self.ctx.path, name))
        except BaseException:
            # This actor ends while the request is under way: how far it came is not known.
            self._audit(request, call.caller, "unknown")
            raise
        else:
            self._audit(request, call.caller, "ok")
            if reply is not None:
                reply.set(answer)
        finally:
            self._under_way -= 1

    def _audit(self, request: AdminRequest, caller: KeyRow, result: str) -> None:
        """Publish who wanted what, and what came of it (ADM-5)."""
        if not request.leaves_trace:
            return
        subject = {name: getattr(request, name) for name in request.audited}
        self.ctx.publish(
            f"admin.{request.type}", **subject, by=caller.name, key_id=caller.key_id, result=result
        )
