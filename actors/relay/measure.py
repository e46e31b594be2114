"""Lengths of a text in the unit in which a platform counts them."""

import re
from bisect import bisect_left, bisect_right

from actors.messages.descriptor import LenUnit

_TWO_UNITS = re.compile("[\U00010000-\U0010ffff]")


def length(text: str, unit: LenUnit) -> int:
    """Return the length of ``text`` in ``unit``."""
    return Measure(text, unit).between(0, len(text))


class Measure:
    """Measures pieces of one text, given by their positions, without copying them."""

    def __init__(self, text: str, unit: LenUnit) -> None:
        self._length = len(text)
        # Positions of characters that count two.
        self._wide: list[int] = []
        if unit is LenUnit.UTF16:
            self._wide = [found.start() for found in _TWO_UNITS.finditer(text)]

    def between(self, start: int, end: int) -> int:
        """Return the length of the piece from ``start`` to ``end``."""
        return end - start + bisect_left(self._wide, end) - bisect_left(self._wide, start)

    def reach(self, start: int, room: int) -> int:
        """Return the farthest position up to which a piece from ``start`` fits into ``room``."""
        farthest = min(start + room, self._length)
        if not self._wide:
            return farthest
        fitting = bisect_right(
            range(start, farthest + 1), room, key=lambda position: self.between(start, position)
        )
        return start + fitting - 1
