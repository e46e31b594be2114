"""Which actor gets which ref: the one place where the tree is put together."""

from collections.abc import Callable
from importlib.metadata import version

from actors.admin.admin import Admin
from actors.admin.edges import Edges as AdminEdges
from actors.admin.edges import Facts
from actors.events.bus import EventBus
from actors.lane.lanes import Lanes
from actors.lane.roster import Roster
from actors.messages.rows import TakenTurn
from actors.metrics.metrics import Metrics
from actors.relay.relays import Relays
from actors.runtime import Actor, Address, Overflow, Ref, System
from actors.session.router import Sessions
from actors.supervision import ChildSpec, Supervisor
from actors.supervision.quarantine import Quarantine
from actors.supervision.sweeper import Sweeper
from actors.turn.turn import Turn
from bin.config import Config
from bin.places import Places
from bin.serving import edges_of
from storage import Database, Store
from transports.backends import specs
from transports.front.edges import Admission
from transports.front.front import Front
from transports.front.listener import Listener

WIDE = 100_000  # The mailbox bound of the actors that everybody talks to.


class Composition:
    """
    The factories of the tree's static children, each with the refs that it needs.

    They run as their children start: every sibling has its place by then. ``daemon`` is told of an asked shutdown, and
    ``reread`` returns the configuration as it is by then.
    """

    def __init__(
        self,
        system: System,
        config: Config,
        database: Database,
        daemon: Address,
        reread: Callable[[], Config],
    ) -> None:
        self._system = system
        self._at = Places(system)
        self._config = config
        self._database = database
        self._daemon = daemon
        self._reread = reread
        # These outlive restarts: a lane that was set anew stays so, and a server that comes back while the daemon stops
        # must not take turns again.
        self._roster = Roster(specs(config.lane))
        self._admission = Admission()
        self._listener = Listener(config.server.host, config.server.port)
        self._facts = Facts.of(system, version("turnkeep"), config.data_dir)

    def children(self) -> tuple[ChildSpec, ...]:
        """Return the children of the root, in the order in which they start; they stop in reverse."""
        return (
            ChildSpec(name="store", factory=self.store, bound=WIDE),
            ChildSpec(name="quarantine", factory=self.quarantine),
            ChildSpec(name="events", factory=self.events, bound=WIDE, overflow=Overflow.DROP_OLDEST),
            ChildSpec(name="sweeper", factory=lambda: Sweeper(self._config.supervision)),
            ChildSpec(name="metrics", factory=Metrics, bound=WIDE, overflow=Overflow.DROP_OLDEST),
            ChildSpec(name="lanes", factory=self.lanes, bound=WIDE),
            ChildSpec(name="relays", factory=self.relays, bound=WIDE),
            ChildSpec(name="sessions", factory=self.sessions, bound=WIDE),
            ChildSpec(name="admin", factory=self.admin),
            ChildSpec(name="front", factory=self.front),
        )

    def store(self) -> Actor:
        """The only owner of the database."""
        return Store(self._database, self._config.store, self._config.retention)

    def quarantine(self) -> Actor:
        """The open quarantines; it starts before anything that may be in one."""
        settings = self._config.supervision
        return Quarantine(store=self._at.store, boot_id=self._facts.boot_id, settings=settings)

    def events(self) -> Actor:
        """The event bus; what was published before it starts waits for it."""
        return EventBus(store=self._at.store, settings=self._config.events)

    def lanes(self) -> Actor:
        """The model lanes, each restarted on its own."""
        return Lanes(self._roster, lambda: specs(self._reread().lane))

    def relays(self) -> Actor:
        """The relay peers and the console."""
        at, platforms = self._at, tuple(console.platform for console in self._config.console)
        settings = self._config.relay
        return Relays(store=at.store, sessions=at.sessions, console_platforms=platforms, settings=settings)

    def sessions(self) -> Actor:
        """The router of sessions."""
        at, settings = self._at, self._config.session
        return Sessions(store=at.store, relays=at.relays, make_turn=self.turn, settings=settings)

    def turn(self, taken: TakenTurn, session: Ref, watchers: tuple[Address, ...]) -> Actor:
        """One turn on the lanes."""
        return Turn(
            taken,
            session=session,
            store=self._at.store,
            lanes=self._at.lanes,
            metrics=self._at.metrics,
            watchers=watchers,
            settings=self._config.turn,
        )

    def admin(self) -> Actor:
        """What operators ask."""
        edges = AdminEdges(
            system=self._system,
            store=self._at.store,
            sessions=self._at.sessions,
            relays=self._at.relays,
            lanes=self._at.lanes,
            quarantine=self._at.quarantine,
            daemon=self._daemon,
            facts=self._facts,
            url=lambda: self._listener.url,
            admitting=lambda: self._admission.open,
        )
        return Admin(edges=edges, settings=self._config.admin)

    def front(self) -> Actor:
        """The HTTP and WebSocket server."""
        edges = edges_of(self._system, self._at, self._config, self._admission)
        return Front(edges, self._listener)


def compose(
    system: System, config: Config, database: Database, daemon: Address, reread: Callable[[], Config]
) -> Ref:
    """Start the tree and return its root; whoever wants to know whether it runs asks ``root.started``."""
    children = Composition(system, config, database, daemon, reread).children()
    return system.spawn("/", lambda: Supervisor(children))
