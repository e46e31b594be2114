"""Who hears of an end: the parent, and whoever watches."""

import pytest

from actors.exceptions import DeadlineExceeded, HandlerFailed, StartFailed
from actors.messages.lifecycle import DownReason
from tests.actors.runtime.conftest import Do, Scribe


async def nothing_more(probe, within):
    with pytest.raises(DeadlineExceeded):
        await probe.receive(within(0))


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("itself", DownReason.NORMAL),
        ("told", DownReason.CRASHED),
        ("asked", DownReason.CRASHED),
        ("killed", DownReason.KILLED),
        ("stopped", DownReason.SHUTDOWN),
    ],
)
async def test_a_watcher_gets_one_down_with_the_reason(system, within, how, reason):
    ref, probe = system.spawn("/a", Scribe), system.port("probe")
    ref.watch(probe)
    await system.idle()
    match how:
        case "itself":
            ref.tell(Do(work=lambda a: a.ctx.stop()))
        case "told":
            ref.tell(Do(work=lambda a: 1 / 0))
        case "asked":
            with pytest.raises(HandlerFailed):
                await ref.ask(Do(work=lambda a: 1 / 0), within(1))
        case "killed":
            system.kill("/a")
        case "stopped":
            await system.stop(ref, within(1))
    down = await probe.receive(within(1))
    assert (down.path, down.incarnation, down.reason) == ("/a", 0, reason)
    await nothing_more(probe, within)


async def test_a_start_that_failed_is_an_end(system, within):
    class Stillborn(Scribe):
        async def on_start(self):
            raise OSError

    ref, probe = system.spawn("/a", Stillborn), system.port("probe")
    with pytest.raises(StartFailed):
        await ref.started(within(1))
    ref.watch(probe)
    down = await probe.receive(within(1))
    assert (down.reason, down.error) == (DownReason.START_FAILED, "OSError")


async def test_one_that_has_ended_already_is_told_at_once(system, within):
    ref, probe = system.spawn("/a", Scribe), system.port("probe")
    await system.stop(ref, within(1))
    ref.watch(probe)
    assert (await probe.receive(within(1))).reason is DownReason.SHUTDOWN
    await nothing_more(probe, within)


async def test_one_that_watches_no_more_hears_nothing_and_the_others_do(system, within):
    ref = system.spawn("/a", Scribe)
    gone, stays = system.port("gone"), system.port("stays")
    for probe in (gone, stays):
        ref.watch(probe)
    ref.unwatch(gone)
    await system.stop(ref, within(1))
    assert (await stays.receive(within(1))).path == "/a"
    await nothing_more(gone, within)
    # One that has ended has nobody to take off.
    ref.unwatch(stays)


async def test_a_watcher_that_has_ended_keeps_nobody_from_hearing(system, within):
    ref, watcher = system.spawn("/a", Scribe), system.spawn("/watcher", Scribe)
    closed, stays = system.port("closed"), system.port("stays")
    for each in (closed, watcher, stays):
        ref.watch(each)
    await system.stop(watcher, within(1))
    closed.close()
    await system.stop(ref, within(1))
    assert (await stays.receive(within(1))).path == "/a"
