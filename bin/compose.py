"""Which actor gets which ref: the one place where the tree is put together."""

import os
from importlib.metadata import version

from actors.admin.admin import Admin
from actors.admin.edges import Edges as AdminEdges
from actors.admin.edges import Facts
from actors.events.bus import EventBus
from actors.messages.rows import TakenTurn
from actors.relay.relays import Relays
from actors.runtime import Actor, Address, Overflow, Ref, System
from actors.session.router import Sessions
from actors.supervision import ChildSpec, Supervisor
from actors.supervision.sweeper import Sweeper
from actors.turn.turn import Turn
from bin.config import Config
from storage import Database, Store
from transports.backends import LaneKind, LaneSettings, lane
from transports.front.admin import AdminSocket
from transports.front.edges import Admission, Edges, LaneRef
from transports.front.front import Front
from transports.front.listener import Listener
from transports.relay.endpoint import RelayEndpoint

STORE_BOUND = 100_000
ROUTER_BOUND = 100_000
EVENTS_BOUND = 10_000

ECHO = LaneSettings(name="echo", kind=LaneKind.ECHO)
"""The lane of an installation without a model."""


class Composition:
    """
    The factories of the tree's static children, each with the refs that it needs.

    A factory runs when its child starts; by then every sibling has its place, so that the order of starting and who
    knows whom are independent. ``daemon`` is told when an operator asks for a shutdown.
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
        self._boot_id = system.new_id()
        self._started_at = system.clock.wall()
        self._started = system.clock.monotonic()

    def children(self) -> tuple[ChildSpec, ...]:
        """Return the children of the root, in the order in which they start; they stop in reverse."""
        return (
            ChildSpec(name="store", factory=self.store, bound=STORE_BOUND),
            ChildSpec(name="events", factory=self.events, bound=EVENTS_BOUND, overflow=Overflow.DROP_OLDEST),
            ChildSpec(name="sweeper", factory=self.sweeper),
            ChildSpec(name="lanes", factory=self.lanes),
            ChildSpec(name="relays", factory=self.relays, bound=ROUTER_BOUND),
            ChildSpec(name="sessions", factory=self.sessions, bound=ROUTER_BOUND),
            ChildSpec(name="admin", factory=self.admin),
            ChildSpec(name="front", factory=self.front),
        )

    def store(self) -> Actor:
        """The only owner of the database."""
        return Store(self._database, self._config.store, self._config.retention)

    def events(self) -> Actor:
        """The event bus; what was published before it starts waits for it."""
        return EventBus(store=self._at("/store"), settings=self._config.events)

    def sweeper(self) -> Actor:
        """Who finds stuck actors."""
        return Sweeper(self._config.supervision)

    def lanes(self) -> Actor:
        """The model lanes, each restarted on its own."""
        return Supervisor(tuple(ChildSpec(name=entry.name, factory=lane(entry)) for entry in self._lanes))

    def relays(self) -> Actor:
        """The relay peers and the console."""
        return Relays(
            store=self._at("/store"),
            sessions=self._at("/sessions"),
            console_platforms=tuple(console.platform for console in self._config.console),
            settings=self._config.relay,
        )

    def sessions(self) -> Actor:
        """The router of sessions."""
        return Sessions(
            store=self._at("/store"),
            relays=self._at("/relays"),
            make_turn=self.turn,
            settings=self._config.session,
        )

    def turn(self, taken: TakenTurn, session: Ref, watchers: tuple[Address, ...]) -> Actor:
        """One turn on one of the lanes."""
        return Turn(
            taken,
            session=session,
            store=self._at("/store"),
            lanes={entry.name: self._at(f"/lanes/{entry.name}") for entry in self._lanes},
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
            daemon=self._daemon,
            facts=Facts(
                version=version("turnkeep"),
                boot_id=self._boot_id,
                pid=os.getpid(),
                data_dir=str(self._config.data_path),
                started_at=self._started_at,
                started=self._started,
            ),
            url=lambda: self._listener.url,
        )
        return Admin(edges=edges, settings=self._config.admin)

    def front(self) -> Actor:
        """The HTTP and WebSocket server."""
        edges = Edges(
            system=self._system,
            store=self._at("/store"),
            sessions=self._at("/sessions"),
            lanes=tuple(
                LaneRef(name=entry.name, ref=self._at(f"/lanes/{entry.name}"), model=entry.model)
                for entry in self._lanes
            ),
            relay_endpoint=RelayEndpoint(
                system=self._system,
                store=self._at("/store"),
                relays=self._at("/relays"),
                sessions=self._at("/sessions"),
                settings=self._config.relay,
            ),
            admin_endpoint=AdminSocket(
                system=self._system,
                admin=self._at("/admin"),
                store=self._at("/store"),
                events=self._at("/events"),
                settings=self._config.admin_socket,
            ),
            settings=self._config.server,
            admission=self._admission,
        )
        return Front(edges, self._listener)

    def _at(self, path: str) -> Ref:
        ref = self._system.find(path)
        assert ref is not None, f"nothing is at {path}"
        return ref


def compose(system: System, config: Config, database: Database, daemon: Address) -> Ref:
    """Start the tree and return its root; whoever wants to know whether it runs asks ``root.started``."""
    composition = Composition(system, config, database, daemon)
    return system.spawn("/", lambda: Supervisor(composition.children()))
