"""Performs the decisions about held children, for whichever actor is their parent."""

from actors.messages.base import ControlMessage
from actors.messages.lifecycle import Down
from actors.messages.quarantine import PlaceFree
from actors.runtime import Context
from actors.supervision.decisions import Fate, Verdict, judge
from actors.supervision.spec import RESTART_BACKOFF, Intensity, Restart


class RestartChild(ControlMessage, frozen=True, kw_only=True):
    """The backoff of a child is over."""

    name: str


class Nursery:
    """Remembers the restarts that still count. Its actor hands it each Down of a child, RestartChild and PlaceFree."""

    def __init__(self, intensity: Intensity | None = None) -> None:
        self._intensity = intensity or Intensity()
        # Times of the restarts that still count, by child.
        self._restarts: dict[str, tuple[float, ...]] = {}

    def ended(self, ctx: Context, down: Down, restart: Restart) -> None:
        """Decide about a child that ended, and let it start again after its backoff if it is to."""
        verdict = self.judge(ctx, down, restart)
        if verdict.fate is Fate.AGAIN:
            name = name_of(down)
            ctx.set_timer(f"restart:{name}", verdict.delay, RestartChild(name=name))

    def due(self, ctx: Context, message: RestartChild) -> None:
        """Start a child again whose backoff is over, unless it was given up meanwhile."""
        if ctx.child(message.name) is not None:
            ctx.restart(message.name)

    def give_up(self, ctx: Context, name: str) -> None:
        """Discard a child that has ended and is not wanted any more; its backoff ends."""
        ctx.cancel_timer(f"restart:{name}")
        self._restarts.pop(name, None)
        ctx.discard(name)

    def freed(self, message: PlaceFree) -> None:
        """Begin anew with a child that an operator has released; the runtime starts it."""
        if message.released:
            self._restarts.pop(message.name, None)

    def judge(self, ctx: Context, down: Down, restart: Restart) -> Verdict:
        """Decide about a child that ended; one that does not start again is given up, or its place quarantined."""
        name = name_of(down)
        verdict = judge(
            restart,
            down.reason,
            self._restarts.get(name, ()),
            self._intensity,
            RESTART_BACKOFF,
            now=ctx.now(),
            fraction=ctx.system.random.random(),
        )
        self._restarts[name] = verdict.restarts
        if ctx.child(name) is None:
            return verdict
        if verdict.fate is Fate.GONE:
            ctx.discard(name)
        elif verdict.fate is Fate.QUARANTINED:
            limit = self._intensity
            error = f" ({down.error})" if down.error is not None else ""
            ctx.quarantine(
                name,
                why=f"{len(verdict.restarts)} restarts within {limit.within_s:g} s, and then {down.reason}{error}",
            )
        return verdict


def name_of(down: Down) -> str:
    """Return the name of the child that ended."""
    return down.path.rsplit("/", 1)[-1]
