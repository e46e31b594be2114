"""Actors on one event loop, made of pykka's parts: the only package that imports pykka."""

from actors.runtime.actor import DEFERRED, Actor
from actors.runtime.budget import Budget
from actors.runtime.census import Census
from actors.runtime.clock import Clock, SystemClock
from actors.runtime.context import Context
from actors.runtime.envelope import Envelope
from actors.runtime.failpoints import Failpoints
from actors.runtime.mailbox import Overflow
from actors.runtime.port import Port
from actors.runtime.ref import Address, Ref
from actors.runtime.reply import Reply, message_of
from actors.runtime.system import System
from actors.runtime.threaded import Threaded
from actors.runtime.trace import Traced, Tracer
from actors.runtime.watchdog import Watchdog

__all__ = [
    "DEFERRED",
    "Actor",
    "Address",
    "Budget",
    "Census",
    "Clock",
    "Context",
    "Envelope",
    "Failpoints",
    "Overflow",
    "Port",
    "Ref",
    "Reply",
    "System",
    "SystemClock",
    "Threaded",
    "Traced",
    "Tracer",
    "Watchdog",
    "message_of",
]
