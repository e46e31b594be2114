"""Which actor gets which ref: the one place where the tree is put together."""

from importlib.metadata import version

from actors.admin.admin import Admin
from actors.admin.edges import Edges as AdminEdges
from actors.admin.edges import Facts
from actors.events.bus import EventBus
from actors.lane.lanes import Lanes
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
from storage import Database, Store
from transports.backends import ECHO, spec
from transports.front.admin import AdminSocket
from transports.front.edges import Admission, Edges, LaneRef
from transports.front.front import Front
from transports.front.listener import Listener
from transports.relay.endpoint import RelayEndpoint

WIDE = 100_000  # The mailbox bound of the actors that everybody talks to.


class Composition:
    """
    The factories of the tree's static children, each with the refs that it needs.

    They run as their children start: every sibling has its place by then. ``daemon`` is told of an asked shutdown.
    """

    def __init__(self, system: System, config: Config, database: Database, daemon: Address) -> None:
        self._system = system
        self._config = config
        self._database = database
        self._daemon = daemon
        self._lanes = config.lane or (ECHO,)
        # Outlives the front's restarts: a server that comes back while the daemon stops must not take turns again.
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
            ChildSpec(name="lanes", factory=self.lanes),
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
        store, boot_id = self._at("/store"), self._facts.boot_id
        return Quarantine(store=store, boot_id=boot_id, settings=self._config.supervision)

    def events(self) -> Actor:
        """The event bus; what was published before it starts waits for it."""
        return EventBus(store=self._at("/store"), settings=self._config.events)

    def lanes(self) -> Actor:
        """The model lanes, each restarted on its own."""
        return Lanes(tuple(spec(entry) for entry in self._lanes))

    def relays(self) -> Actor:
        """The relay peers and the console."""
        store, sessions = self._at("/store"), self._at("/sessions")
        platforms = tuple(console.platform for console in self._config.console)
        return Relays(
            store=store, sessions=sessions, console_platforms=platforms, settings=self._config.relay
        )

    def sessions(self) -> Actor:
        """The router of sessions."""
        store, relays = self._at("/store"), self._at("/relays")
        return Sessions(store=store, relays=relays, make_turn=self.turn, settings=self._config.session)

    def turn(self, taken: TakenTurn, session: Ref, watchers: tuple[Address, ...]) -> Actor:
        """One turn on the lanes."""
        return Turn(
            taken,
            session=session,
            store=self._at("/store"),
            lanes=self._at("/lanes"),
            metrics=self._at("/metrics"),
            watchers=watchers,
            settings=self._config.turn,
        )

    def admin(self) -> Actor:
        """What operators ask."""
        edges = AdminEdges(
            system=self._system,
            store=self._at("/store"),
            sessions=self._at("/sessions"),
            relays=self._at("/relays"),
            quarantine=self._at("/quarantine"),
            daemon=self._daemon,
            facts=self._facts,
            url=lambda: self._listener.url,
            admitting=lambda: self._admission.open,
        )
        return Admin(edges=edges, settings=self._config.admin)

    def front(self) -> Actor:
        """The HTTP and WebSocket server."""
        system, config, store = self._system, self._config, self._at("/store")
        relays, sessions = self._at("/relays"), self._at("/sessions")
        admin, events = self._at("/admin"), self._at("/events")
        edges = Edges(
            system=system,
            store=store,
            sessions=sessions,
            metrics=self._at("/metrics"),
            lanes=self._lane_refs,
            relay_endpoint=RelayEndpoint(
                system=system, store=store, relays=relays, sessions=sessions, settings=config.relay
            ),
            admin_endpoint=AdminSocket(
                system=system,
                admin=admin,
                store=store,
                events=events,
                sessions=sessions,
                settings=config.admin_socket,
            ),
            settings=config.server,
            admission=self._admission,
        )
        return Front(edges, self._listener)

    def _lane_refs(self) -> tuple[LaneRef, ...]:
        return tuple(
            LaneRef(
                name=entry.name,
                ref=self._system.find(f"/lanes/{entry.name}"),
                model=entry.model,
                capabilities=entry.traits().capabilities,
            )
            for entry in self._lanes
        )

    def _at(self, path: str) -> Ref:
        # Its place stays while it is down or quarantined, and the ref is good again when it comes back.
        ref = self._system.find(path)
        assert ref is not None, f"nothing is at {path}"
        return ref


def compose(system: System, config: Config, database: Database, daemon: Address) -> Ref:
    """Start the tree and return its root; whoever wants to know whether it runs asks ``root.started``."""
    children = Composition(system, config, database, daemon).children()
    return system.spawn("/", lambda: Supervisor(children))
