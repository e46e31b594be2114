"""What a lane's streams run on, for as long as the lane's settings are the same."""

from actors.messages.lane import OpenStream
from actors.runtime import System
from transports.backends.settings import LaneSettings
from transports.backends.stream import Stream


class Backend:
    """Made by a lane that runs; several of one lane may live, while streams of earlier settings come to their ends."""

    def __init__(self, settings: LaneSettings, gen: int, system: System) -> None:
        self.settings = settings
        self.gen = gen
        """Another number whenever the settings are others: it fences requests that were prepared before."""
        self._system = system

    def open_stream(self, request: OpenStream) -> Stream:
        """Return the stream for a request, with the watchdog that this kind of backend wants."""
        raise NotImplementedError

    async def serve(self, stream: Stream) -> None:
        """Carry a stream to its end. Cancelled when nobody wants it any more."""
        raise NotImplementedError

    async def close(self) -> None:
        """Give back what it holds. May be called twice."""
