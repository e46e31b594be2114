"""What can go wrong in a run: drawn from its seed, each a moment and something that is done then."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from actors.exceptions import ActorStopped, StoreUnavailable
from actors.messages.lane import ReloadLanes
from actors.messages.lifecycle import Resume, Suspend
from actors.messages.session import StopTurn
from actors.runtime.failpoints import POINTS, Verb

if TYPE_CHECKING:
    from tests.simulation.world import World


class Injected(Exception):
    """What a failpoint raises: a mistake of ours in the place where it stands."""


Fault = Callable[["World"], Awaitable[None]]

HOUR = 3600.0


# Actors


async def kill_an_actor(world: "World") -> None:
    """End an actor at once, whatever it is at."""
    paths = [info.path for info in world.daemon.system.actors() if info.path != "/"]
    path = world.random.choice(paths)
    world.trace("kill", path)
    world.daemon.call(world.daemon.system.kill, path)


async def crash_at_a_point(world: "World") -> None:
    """Let the code raise, once, at a passage of some point."""
    name = world.random.choice([name for name, point in POINTS.items() if point.verb is not Verb.DROPS])
    world.trace("crash", name)
    world.daemon.failpoints.set(name, _raise, at=world.random.randint(1, 4))


async def wait_at_a_point(world: "World") -> None:
    """Hold up whoever passes some point for a while."""
    name = world.random.choice([name for name, point in POINTS.items() if point.verb is Verb.REACH])
    seconds = world.random.choice([0.1, 3.0, 15.0])
    world.trace("wait", name, seconds)
    world.daemon.failpoints.set(name, lambda: asyncio.sleep(seconds), times=world.random.randint(1, 3))


async def suspend_an_actor(world: "World") -> None:
    """Hold back an actor's ordinary messages, and let them go on later."""
    paths = [info.path for info in world.daemon.system.actors() if info.path.startswith("/sessions/")]
    if not paths:
        return
    path = world.random.choice(paths)
    ref = world.daemon.system.find(path)
    world.trace("suspend", path)
    for message, seconds in ((Suspend(), world.random.uniform(0.1, 5.0)), (Resume(), 0.0)):
        try:
            world.daemon.call(ref.tell, message)
        except ActorStopped:
            return
        await asyncio.sleep(seconds)


# The store


def _raise() -> None:
    raise Injected


def _full() -> None:
    raise sqlite3.OperationalError("database or disk is full")


def _unavailable() -> None:
    raise StoreUnavailable("no disk today")


async def fail_the_store(world: "World") -> None:
    """Let no batch be written, or no request be served, for some seconds."""
    name = world.random.choice(["store.before_commit", "store.before_begin", "store.connect"])
    action = world.random.choice([_full, _unavailable])
    seconds = world.random.choice([0.05, 2.0, 20.0])
    world.trace("store fails", name, action.__name__, seconds)
    points = world.daemon.failpoints
    points.always(name, action)
    await asyncio.sleep(seconds)
    points.clear(name)


async def hang_the_disk(world: "World") -> None:
    """Let one batch take long, before it is committed or before its answers are given."""
    seconds = world.random.choice([0.5, 5.0, 14.0])
    name = world.random.choice(["store.before_begin", "store.before_commit", "store.after_commit"])
    world.trace("disk hangs", name, seconds)
    if POINTS[name].verb is Verb.THREAD:
        world.daemon.failpoints.set(name, lambda: world.simulation.threads.hold_up(seconds))
    else:
        world.daemon.failpoints.set(name, lambda: asyncio.sleep(seconds))


async def lose_an_answer(world: "World") -> None:
    """Let one or a few answers of the store be lost: what was asked for is done all the same."""
    world.trace("answer lost")
    at, times = world.random.randint(1, 5), world.random.randint(1, 2)
    world.daemon.failpoints.set("store.answer", lambda: True, at=at, times=times)


# The network and the far ends


async def cut_the_clients(world: "World") -> None:
    """Break every connection to the daemon."""
    world.trace("cut")
    world.network.cut(world.place)


async def silence_the_daemon(world: "World") -> None:
    """Let nothing through to or from the daemon for a while, without telling anybody."""
    seconds = world.random.choice([0.5, 5.0, 100.0])
    world.trace("silence", seconds)
    world.network.silence(world.place)
    await asyncio.sleep(seconds)
    world.network.restore(world.place)


async def cut_the_backend(world: "World") -> None:
    """Break every connection to the backend, and refuse new ones for a while."""
    seconds = world.random.choice([0.0, 0.5, 10.0])
    world.trace("backend away", seconds)
    world.network.refusing.add(world.backend_place)
    world.network.cut(world.backend_place)
    await asyncio.sleep(seconds)
    world.network.refusing.discard(world.backend_place)


async def interrupt_a_chat(world: "World") -> None:
    """Stop a turn, as a person in its chat does."""
    chat = world.random.choice(world.chats)
    world.trace("interrupt", chat)
    await world.platform.interrupt(chat)


async def stop_a_turn(world: "World") -> None:
    """Stop a turn, as an operator does."""
    rows = world.read("SELECT session_id FROM sessions ORDER BY session_id")
    if rows:
        session_id = world.random.choice(rows)["session_id"]
        world.trace("stop", session_id)
        world.expect(world.daemon.ask("/sessions", StopTurn(session_id=session_id, by="operator")))


async def set_the_lanes_anew(world: "World") -> None:
    """Configure other lanes, and have them read."""
    names = world.configure_lanes()
    world.daemon.config = world.config
    world.trace("lanes", *names)
    world.expect(world.daemon.ask("/lanes", ReloadLanes(by="operator")))


# The machine


async def jump(world: "World") -> None:
    """Set the wall clock."""
    seconds = world.random.choice([-HOUR, HOUR, 24 * HOUR, -0.5])
    world.trace("wall clock", seconds)
    world.simulation.clock.jump(seconds)


async def kill_the_daemon(world: "World") -> None:
    """SIGKILL, and a new start a little later."""
    await world.kill_daemon()
    await asyncio.sleep(world.random.choice([0.0, 0.5, 5.0]))
    await world.start_daemon()


async def restart_the_daemon(world: "World") -> None:
    """Drain, stop in order, and start again."""
    await world.stop_daemon()
    await asyncio.sleep(world.random.choice([0.0, 1.0]))
    await world.start_daemon()


async def kill_the_daemon_at_a_point(world: "World") -> None:
    """SIGKILL at a passage of some point, and a new start."""
    points = [name for name, point in POINTS.items() if point.verb is not Verb.THREAD]
    name = world.random.choice(points)
    at = world.random.randint(1, 4)
    world.trace("kill at", name, at)
    world.daemon.failpoints.set(name, world.die, at=at)


FAULTS: dict[Fault, float] = {
    kill_an_actor: 3,
    crash_at_a_point: 3,
    wait_at_a_point: 1,
    suspend_an_actor: 1,
    fail_the_store: 2,
    hang_the_disk: 2,
    lose_an_answer: 2,
    cut_the_clients: 2,
    silence_the_daemon: 0.5,
    cut_the_backend: 1,
    interrupt_a_chat: 1,
    stop_a_turn: 1,
    set_the_lanes_anew: 1,
    jump: 1,
    kill_the_daemon: 1.5,
    kill_the_daemon_at_a_point: 2,
    restart_the_daemon: 0.7,
}
"""Each with its weight."""


def draw(rng: Any, count: int, seconds: float) -> list[tuple[float, Fault]]:
    """Return so many faults at moments of the next ``seconds``, in order."""
    kinds, weights = list(FAULTS), list(FAULTS.values())
    moments = sorted(rng.uniform(0.0, seconds) for _ in range(count))
    return list(zip(moments, rng.choices(kinds, weights, k=count), strict=True))
