"""
What becomes of a child that has ended: pure, without clock or actors.

| restart | normal, passivated, shutdown | crashed, start_failed, killed |
|---|---|---|
| permanent | again | again |
| transient | gone | again |
| temporary | gone | gone |

An end with the reason restart was ordered: the child starts again at once, whatever its type, and it does not count.

"Again" comes after a backoff that grows with the restarts inside the intensity's window; one restart more than the
intensity allows is a quarantine.

| strategy | starts again along with it |
|---|---|
| one_for_one | nobody |
| one_for_all | all siblings but temporary ones, which are stopped and gone |
| rest_for_one | of these, those that were started after it |
"""

import enum

import msgspec

from actors.backoff import Backoff
from actors.messages.lifecycle import ABNORMAL, DownReason
from actors.supervision.spec import Intensity, Restart, Strategy


class Fate(enum.Enum):
    """What happens to a child."""

    GONE = "gone"
    AGAIN = "again"
    QUARANTINED = "quarantined"


class Verdict(msgspec.Struct, frozen=True):
    """A child's fate; ``delay`` in seconds if it starts again; ``restarts`` are the times that still count."""

    fate: Fate
    restarts: tuple[float, ...] = ()
    delay: float = 0.0


def wants_restart(restart: Restart, reason: DownReason) -> bool:
    """Say whether a child of that type starts again after that end."""
    if restart is Restart.PERMANENT:
        return True
    return restart is Restart.TRANSIENT and reason in ABNORMAL


def judge(
    restart: Restart,
    reason: DownReason,
    restarts: tuple[float, ...],
    intensity: Intensity,
    backoff: Backoff,
    *,
    now: float,
    fraction: float,
) -> Verdict:
    """
    Decide about a child that has ended at ``now`` (monotonic seconds).

    ``restarts`` are the times of its earlier restarts; ``fraction`` (0 … 1) is the jitter.
    """
    recent = tuple(at for at in restarts if now - at < intensity.within_s)
    if reason is DownReason.RESTART:
        return Verdict(Fate.AGAIN, recent)
    if not wants_restart(restart, reason):
        return Verdict(Fate.GONE)
    if len(recent) >= intensity.restarts:
        return Verdict(Fate.QUARANTINED, recent)
    # The first restart of a window comes at once: most crashes do not repeat.
    delay = backoff.delay(len(recent), fraction) if recent else 0.0
    return Verdict(Fate.AGAIN, (*recent, now), delay)


def companions(strategy: Strategy, order: tuple[str, ...], failed: str) -> tuple[str, ...]:
    """Return who is stopped and started again along with ``failed``, in the order of starting."""
    match strategy:
        case Strategy.ONE_FOR_ONE:
            return ()
        case Strategy.ONE_FOR_ALL:
            return tuple(name for name in order if name != failed)
        case Strategy.REST_FOR_ONE:
            return order[order.index(failed) + 1 :]
