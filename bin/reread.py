"""Reads the configuration of a daemon that runs again, and says what of it takes a restart."""

from collections.abc import Callable

import structlog

from bin.config import Config, Loaded

log = structlog.get_logger("turnkeep.daemon")

LIVE = frozenset({"lane"})
"""Sections that are taken up while the daemon runs."""


class Rereading:
    """``again`` loads the configuration from where ``running`` came; it blocks, and raises ConfigError."""

    def __init__(self, running: Config, again: Callable[[], Loaded]) -> None:
        self._running = running
        self._again = again

    def __call__(self) -> Config:
        """Return the configuration as it is now."""
        config = self._again().config
        if later := takes_restart(self._running, config):
            log.warning("config.takes_a_restart", sections=later)
        return config


def takes_restart(running: Config, config: Config) -> tuple[str, ...]:
    """Return the sections that are other than those that run and are not taken up while they do."""
    return tuple(
        name
        for name in Config.__struct_fields__
        if name not in LIVE and getattr(running, name) != getattr(config, name)
    )
