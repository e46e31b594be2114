"""How the lanes are set, and what another set of them changes. Pure but for Roster, which keeps what is decided."""

from collections.abc import Iterable, Mapping

import msgspec

from actors.lane.health import Health
from actors.messages.lane import LaneSpec


class Setting(msgspec.Struct, frozen=True):
    """A lane as it is to run; ``gen`` is the number of the reload that has set it so."""

    spec: LaneSpec
    gen: int


Settings = Mapping[str, Setting]
"""By name, in the configured order."""


class Changes(msgspec.Struct, frozen=True):
    """The names of lanes that one set has and another has not, or has otherwise."""

    new: tuple[str, ...]
    changed: tuple[str, ...]
    gone: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.new, *self.changed, *self.gone)


def settle(now: Settings, lanes: Iterable[LaneSpec], gen: int) -> tuple[Settings, Changes]:
    """Return the settings after these lanes are configured by reload ``gen``: one that stays as it is keeps its own."""
    then: dict[str, Setting] = {}
    for spec in lanes:
        name = spec.traits.name
        kept = now.get(name)
        same = kept is not None and kept.spec.settings == spec.settings
        then[name] = kept if same and kept is not None else Setting(spec, gen)
    new = tuple(name for name in then if name not in now)
    changed = tuple(name for name in then if name in now and then[name] is not now[name])
    gone = tuple(name for name in now if name not in then)
    return then, Changes(new, changed, gone)


class Roster:
    """What /lanes knows, and what outlives its restarts: what was reloaded stays so."""

    def __init__(self, lanes: Iterable[LaneSpec]) -> None:
        self.reloads = 1
        self.settings, _ = settle({}, lanes, self.reloads)
        self.health = Health()

    def reload(self, lanes: Iterable[LaneSpec]) -> Changes:
        """Keep these lanes from now on, and forget how other backends did."""
        self.reloads += 1
        self.settings, changes = settle(self.settings, lanes, self.reloads)
        self.health = self.health.of({kept.spec.traits.backend for kept in self.settings.values()})
        return changes
