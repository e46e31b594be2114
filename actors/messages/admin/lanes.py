"""About model lanes."""

from actors.messages.admin.request import AdminRequest
from actors.messages.rows import KeyScope


class ListModelLanes(AdminRequest, frozen=True, kw_only=True, tag="lanes.list"):
    """The model lanes in their configured order, with what they carry and how their backends do."""


class ReloadModelLanes(AdminRequest, frozen=True, kw_only=True, tag="lanes.reload"):
    """Read the configuration file again and run the lanes that it has now; refused if there is a mistake in it."""

    scope = KeyScope.OPERATE
    changes = True
