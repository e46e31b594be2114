"""About what is quarantined."""

from actors.messages.admin.request import AdminRequest, Limit, Word
from actors.messages.rows import KeyScope


class ListAllQuarantines(AdminRequest, frozen=True, kw_only=True, tag="quarantine.list"):
    """What is held now, the oldest first; of one name, or id, or of all. With ``lifted`` also what was held before."""

    name: Word | None = None
    lifted: bool = False
    limit: Limit = 100


class ReleaseHeld(AdminRequest, frozen=True, kw_only=True, tag="quarantine.release"):
    """Lift a quarantine, by name or id. While nothing proves the end, only with ``force``."""

    scope = KeyScope.OPERATE
    changes = True
    audited = ("name", "force")

    name: Word
    force: bool = False


class ReconcileNow(AdminRequest, frozen=True, kw_only=True, tag="quarantine.reconcile"):
    """Ask again, now, whether what is held has ended: one, by name or id, or all."""

    scope = KeyScope.OPERATE
    changes = True
    audited = ("name",)

    name: Word | None = None
