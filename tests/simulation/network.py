"""
The network between what runs in the simulation: transports in memory, under the real protocols.

The real HTTP and WebSocket servers and clients run above them unchanged; what is left out is the kernel, whose order of
events no seed decides. As with TCP, bytes of one direction keep their order and come in pieces of any size, each end
learns of the other's close after what was sent before it, and a connection may break or fall silent. A killed process
closes its connections, with or without what it had written last.
"""

import asyncio
import contextvars
import errno
import random
from collections import deque
from collections.abc import Callable
from typing import Any

from tests.simulation.loop import Process, VirtualLoop, outside

Place = tuple[str, int]

LATENCY = 0.002
"""The longest way of a piece, in seconds."""

HIGH_WATER = 64 * 1024

FIRST_PORT = 20_000


class End(asyncio.Transport):
    """One end of a connection. Its protocol's callbacks run in its own context."""

    def __init__(self, network: "Network", here: Place, there: Place, side: "Side") -> None:
        super().__init__({"sockname": here, "peername": there})
        self._network = network
        self.context = side.context
        self.process = side.process
        self.peer: End
        self.protocol: Any = None
        # What is on its way to the other end.
        self._sent: deque[bytes] = deque()
        self._size = 0
        self._carrying = False
        self._reading = True
        self._full = False
        self._closing = False
        # The other end has said that it will send nothing more.
        self._lost = False

    # asyncio's side

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def get_protocol(self) -> Any:
        return self.protocol

    def is_closing(self) -> bool:
        return self._closing

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self.peer.carry_on()

    def can_write_eof(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return self._size

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """One limit is as good as another."""

    def write(self, data: Any) -> None:
        if self._closing or not data:
            return
        self._sent.append(bytes(data))
        self._size += len(data)
        if self._size > HIGH_WATER and not self._full:
            self._full = True
            self.protocol.pause_writing()
        self.carry_on()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._lose(None)
            self.carry_on()

    def abort(self) -> None:
        if not self._lost or self._size:
            self.drop()
            self._closing = True
            self._lose(None)
            self._network.later(self.peer.reset)

    # The network's side

    def carry_on(self) -> None:
        """Bring what was sent, and after it the close, to the other end, a piece at a time."""
        if not self._carrying and (self._sent or self._closing):
            self._carrying = True
            self._network.later(self._carry)

    def _carry(self) -> None:
        self._carrying = False
        if self._network.holds(self) or not (self.peer._reading or self.peer._closing):
            return
        if self._sent:
            piece = self._network.piece(self._sent)
            self._size -= len(piece)
            self.peer.receive(piece)
            if self._full and self._size <= HIGH_WATER // 4 and not self._closing:
                self._full = False
                self._call(self.protocol.resume_writing)
            self.carry_on()
        elif self._closing:
            self.peer.hear_close()

    def receive(self, data: bytes) -> None:
        """Hand bytes to the protocol; with nobody there they reset the other end."""
        if not self._closing:
            self._call(self.protocol.data_received, data)
        elif not self.peer._closing:
            self.peer.reset()

    def hear_close(self) -> None:
        """The other end has closed."""
        if not self._closing and not self._call(self.protocol.eof_received):
            self.close()

    def reset(self) -> None:
        """The connection is broken."""
        self.drop()
        if not self._closing:
            self._closing = True
            self._lose(ConnectionResetError(errno.ECONNRESET, "connection reset by peer"))

    def drop(self) -> None:
        """Forget what was not carried yet."""
        self._sent.clear()
        self._size = 0

    def die(self, *, politely: bool) -> None:
        """Its process was killed: the kernel closes it, after what was written or at once."""
        self._closing = self._lost = True
        if politely:
            self.carry_on()
        else:
            self.drop()
            self._network.later(self.peer.reset)

    def _lose(self, error: Exception | None) -> None:
        if not self._lost:
            self._lost = True
            self._network.forget(self)
            self._network.loop.call_soon(self.protocol.connection_lost, error, context=self.context)

    def _call(self, callback: Callable[..., Any], *args: Any) -> Any:
        try:
            return self.context.copy().run(callback, *args)
        except Exception as error:
            self._network.loop.call_exception_handler(
                {"message": "a protocol failed", "exception": error, "protocol": self.protocol}
            )
            self.abort()
            return None


class Side:
    """Whoever listens or connects: its context and its process."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.context = contextvars.copy_context()
        self.process = loop.owner()


class Listening(Side):
    """What create_server returns."""

    def __init__(self, network: "Network", factory: Callable[[], Any], place: Place) -> None:
        super().__init__(network.loop)
        self._network = network
        self.factory = factory
        self.place = place

    @property
    def sockets(self) -> list["Listening"]:
        return [self]

    def getsockname(self) -> Place:
        return self.place

    def is_serving(self) -> bool:
        return self._network.listening.get(self.place) is self

    def close(self) -> None:
        if self.is_serving():
            del self._network.listening[self.place]

    async def wait_closed(self) -> None:
        """As with asyncio before 3.12.1, connections may outlive it."""


class Network:
    """Everything that listens, and every connection. In the place of the loop's own once ``installed``."""

    def __init__(self, loop: VirtualLoop, rng: random.Random) -> None:
        self.loop = loop
        self._rng = rng
        self._context = outside()
        self.listening: dict[Place, Listening] = {}
        # Open ends, in the order in which they were made.
        self._ends: dict[End, None] = {}
        # Places that refuse connections, and those from and to which nothing comes through.
        self.refusing: set[Place] = set()
        self._silent: set[Place] = set()
        # Ends that have something to carry there.
        self._held: dict[End, None] = {}
        # Where sockets were connected to that are still to become transports.
        self._dialled: dict[int, Place] = {}
        self._ports = iter(range(FIRST_PORT, 65_536))

    def installed(self) -> None:
        """Let the loop's connections be these."""
        loop: Any = self.loop
        loop.create_server = self.create_server
        loop.create_connection = self.create_connection
        loop.sock_connect = self.sock_connect

    # The loop's side

    async def create_server(
        self, factory: Any, host: Any = None, port: int | None = None, *, sock: Any = None, **_: Any
    ) -> Listening:
        """Listen; a real socket only lends its address."""
        place = sock.getsockname()[:2] if sock is not None else (host, port or next(self._ports))
        if place in self.listening:
            raise OSError(errno.EADDRINUSE, f"{place} is in use")
        listening = self.listening[place] = Listening(self, factory, place)
        return listening

    async def sock_connect(self, sock: Any, address: Any) -> None:
        """Note where the socket shall lead: it becomes a transport in a moment."""
        await self._reach(address[:2])
        self._dialled[sock.fileno()] = address[:2]

    async def create_connection(
        self, factory: Any, host: Any = None, port: Any = None, *, sock: Any = None, **_: Any
    ) -> tuple[End, Any]:
        """Connect, or raise ConnectionRefusedError."""
        if sock is not None:
            place = self._dialled.pop(sock.fileno())
            sock.close()
        else:
            place = (host, port)
        listening = await self._reach(place)
        here = ("127.0.0.1", next(self._ports))
        near = End(self, here, place, Side(self.loop))
        far = End(self, place, here, listening)
        near.peer, far.peer = far, near
        self._ends |= {near: None, far: None}
        near.protocol = factory()
        far.protocol = far.context.copy().run(listening.factory)
        for end in (far, near):
            self.loop.call_soon(end.protocol.connection_made, end, context=end.context.copy())
        made = self.loop.create_future()
        self.loop.call_soon(lambda: made.done() or made.set_result(None))
        await made
        return near, near.protocol

    async def _reach(self, place: Place) -> Listening:
        await asyncio.sleep(self._moment())
        listening = self.listening.get(place)
        if listening is None or place in self.refusing:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"nobody listens at {place}")
        return listening

    # The ends' side

    def later(self, callback: Callable[[], None]) -> None:
        """Call back after one way."""
        self.loop.call_later(self._moment(), callback, context=self._context)

    def piece(self, sent: deque[bytes]) -> bytes:
        """Take from what was sent: as a rule all, sometimes only a part of it."""
        data = b"".join(sent)
        sent.clear()
        if len(data) > 1 and self._rng.random() < 0.1:
            cut = self._rng.randrange(1, len(data))
            sent.append(data[cut:])
            data = data[:cut]
        return data

    def holds(self, end: End) -> bool:
        """Say whether nothing comes through on this connection, and let the end go on when something does."""
        places = {end.get_extra_info("peername"), end.get_extra_info("sockname")}
        if places.isdisjoint(self._silent):
            return False
        self._held[end] = None
        return True

    def forget(self, end: End) -> None:
        """Note that an end has been closed."""
        self._ends.pop(end, None)

    def _moment(self) -> float:
        return self._rng.random() * LATENCY

    # What a test does to it

    def connections(self, place: Place) -> list[End]:
        """Return the clients' ends of the open connections to a place, oldest first."""
        return [end for end in self._ends if end.get_extra_info("peername") == place]

    def cut(self, place: Place) -> None:
        """Break every connection to a place; what was on its way is lost."""
        for end in self.connections(place):
            for side in (end, end.peer):
                side.drop()
                self.later(side.reset)

    def silence(self, place: Place) -> None:
        """Let nothing through, from or to a place; nobody is told."""
        self._silent.add(place)

    def restore(self, place: Place) -> None:
        """Let everything through again, and what was held back first."""
        self._silent.discard(place)
        held, self._held = self._held, {}
        for end in held:
            end.carry_on()

    def close(self) -> None:
        """End every connection without a word."""
        for end in [*self._ends]:
            end.die(politely=True)
        self._ends.clear()
        self.listening.clear()

    def kill(self, process: Process) -> None:
        """Close what a killed process had open."""
        for listening in list(self.listening.values()):
            if listening.process is process:
                listening.close()
        for end in [end for end in self._ends if end.process is process]:
            self.forget(end)
            end.die(politely=self._rng.random() < 0.5)
