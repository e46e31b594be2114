"""The amounts that a user may set: what is out of their bounds is refused with the key's name, infinity and NaN included."""

from typing import Annotated

import msgspec

LONGEST = 1e9

Seconds = Annotated[float, msgspec.Meta(gt=0, le=LONGEST)]
Hours = Annotated[float, msgspec.Meta(ge=0, le=LONGEST)]
Days = Annotated[float, msgspec.Meta(ge=0, le=LONGEST)]

Wait = Annotated[float, msgspec.Meta(ge=0, le=LONGEST)]
"""Seconds that may be none at all."""

Count = Annotated[int, msgspec.Meta(ge=1)]
"""How many of something, or how many bytes: at least one."""

Share = Annotated[float, msgspec.Meta(gt=0, le=1)]
