"""What a message is: a frozen struct that names its lane and, if it is asked, the type of its answer."""

import enum
from typing import ClassVar, Generic, TypeVar

import msgspec

R = TypeVar("R")


class Lane(enum.IntEnum):
    """The lanes of a mailbox, in the order in which they are served."""

    KILL = 0
    """Not queued: ends the actor at once."""
    CONTROL = 1
    """Stop, interrupt, suspend, inspect, supervision, timers. Unbounded, overtakes ordinary messages."""
    ORDINARY = 2
    """Everything else. Bounded."""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """Anything that one actor tells another."""

    mailbox_lane: ClassVar[Lane] = Lane.ORDINARY


class ControlMessage(Message, frozen=True, kw_only=True):
    """A message that overtakes ordinary ones."""

    mailbox_lane: ClassVar[Lane] = Lane.CONTROL


class Request(Message, Generic[R], frozen=True, kw_only=True):
    """A message that is asked; ``R`` is the type of its answer."""


class ControlRequest(ControlMessage, Generic[R], frozen=True, kw_only=True):
    """A request that overtakes ordinary messages."""
