"""/events: the numbered, bounded record of what happened, and who hears of it."""

from actors.events.bus import EventBus
from actors.events.settings import EventSettings

__all__ = ["EventBus", "EventSettings"]
