"""/admin: what operators see and steer."""

from actors.admin.admin import Admin
from actors.admin.edges import Edges, Facts
from actors.admin.settings import AdminSettings

__all__ = ["Admin", "AdminSettings", "Edges", "Facts"]
