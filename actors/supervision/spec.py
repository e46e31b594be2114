"""What a supervisor is told about its children."""

import enum
from collections.abc import Callable

import msgspec

from actors.backoff import Backoff
from actors.runtime import Actor, Overflow


class Restart(enum.Enum):
    """When a child that has ended starts again."""

    PERMANENT = "permanent"
    """Always."""
    TRANSIENT = "transient"
    """After an abnormal end only."""
    TEMPORARY = "temporary"
    """Never."""


class Strategy(enum.Enum):
    """Which siblings of a child that starts again start again with it, as in OTP."""

    ONE_FOR_ONE = "one_for_one"
    """None."""
    ONE_FOR_ALL = "one_for_all"
    """All of them."""
    REST_FOR_ONE = "rest_for_one"
    """Those that were started after it."""


class Intensity(msgspec.Struct, frozen=True):
    """More than ``restarts`` restarts ``within_s`` seconds, and the child is quarantined instead."""

    restarts: int = 5
    within_s: float = 60.0


class ChildSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One child: its name under the supervisor, how to make it, and when to make it again."""

    name: str
    factory: Callable[[], Actor]
    restart: Restart = Restart.PERMANENT
    start_s: float = 30.0
    """The budget of ``on_start``, in seconds."""
    stop_s: float = 5.0
    """The budget of its stop, when it is stopped along with a sibling."""
    bound: int = 1000
    overflow: Overflow = Overflow.REFUSE


RESTART_BACKOFF = Backoff(0.1, 30.0)
