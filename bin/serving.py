"""What the server's routes and endpoints reach."""

from actors.runtime import System
from bin.config import Config
from bin.places import Places
from transports.front.admin import AdminSocket
from transports.front.edges import Admission, Edges
from transports.relay.endpoint import RelayEndpoint


def edges_of(system: System, at: Places, config: Config, admission: Admission) -> Edges:
    """Return the server's edges, with the endpoints of relay peers and of operators."""
    return Edges(
        system=system,
        store=at.store,
        sessions=at.sessions,
        metrics=at.metrics,
        lanes=at.lanes,
        relay_endpoint=RelayEndpoint(
            system=system, store=at.store, relays=at.relays, sessions=at.sessions, settings=config.relay
        ),
        admin_endpoint=AdminSocket(
            system=system,
            admin=at.admin,
            store=at.store,
            events=at.events,
            sessions=at.sessions,
            settings=config.admin_socket,
        ),
        settings=config.server,
        admission=admission,
    )
