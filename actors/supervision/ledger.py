"""Makes cases durable: of each one write at a time, repeated until the store has its newest state."""

import msgspec
import structlog

from actors.backoff import Backoff
from actors.messages.base import ControlMessage, Message
from actors.messages.quarantine import Case, KeepQuarantine, QuarantineRow, ReadQuarantines
from actors.runtime import Context, Ref
from actors.supervision.settings import SupervisionSettings

log = structlog.get_logger("turnkeep.quarantine")

RETRY_BASE_SECONDS = 0.5


class CaseKept(ControlMessage, frozen=True, kw_only=True):
    """The store's answer to a write; None if it failed, or nobody knows."""

    quarantine_id: str
    row: QuarantineRow | None


class KeepAgain(ControlMessage, frozen=True, kw_only=True):
    """The wait before another try is over."""

    quarantine_id: str


class VersionRead(ControlMessage, frozen=True, kw_only=True):
    """What is stored, before another try; None if the store could not say."""

    quarantine_id: str
    rows: tuple[QuarantineRow, ...] | None


class Page(msgspec.Struct):
    """What is to be stored of one case, and how far that is."""

    case: Case
    version: int = 0
    failures: int = 0
    under_way: bool = False


class Ledger:
    """Its actor hands it every message of this module. It forgets a case once its exit is stored."""

    def __init__(self, ctx: Context, store: Ref, settings: SupervisionSettings) -> None:
        self._ctx = ctx
        self._store = store
        self._settings = settings
        self._backoff = Backoff(RETRY_BASE_SECONDS, settings.store_retry_cap_s)
        self._pages: dict[str, Page] = {}

    def enter(self, row: QuarantineRow) -> None:
        """Take over what the store has."""
        self._pages[row.quarantine_id] = Page(row.case, row.version)

    def version(self, quarantine_id: str) -> int:
        """Return the version that is known to be stored, 0 if none is."""
        page = self._pages.get(quarantine_id)
        return page.version if page is not None else 0

    def keep(self, quarantine_id: str, case: Case) -> None:
        """Store the case; what it was before need not have been stored."""
        page = self._pages.setdefault(quarantine_id, Page(case))
        page.case = case
        if not page.under_way:
            self._write(quarantine_id, page)

    def hear(self, message: Message) -> None:
        """Go on with a write."""
        match message:
            case CaseKept(quarantine_id=quarantine_id, row=row):
                self._kept(quarantine_id, row)
            case KeepAgain(quarantine_id=quarantine_id):
                self._read(quarantine_id)
            case VersionRead(quarantine_id=quarantine_id, rows=rows):
                self._version_read(quarantine_id, rows)

    def _write(self, quarantine_id: str, page: Page) -> None:
        page.under_way = True
        row = QuarantineRow(quarantine_id=quarantine_id, version=page.version, case=page.case)
        self._ctx.pipe(
            self._store.ask(
                KeepQuarantine(row=row, at=self._ctx.wall()), self._ctx.within(self._settings.store_s)
            ),
            lambda kept: CaseKept(quarantine_id=quarantine_id, row=kept),
            lambda error: CaseKept(quarantine_id=quarantine_id, row=None),
        )

    def _kept(self, quarantine_id: str, row: QuarantineRow | None) -> None:
        page = self._pages[quarantine_id]
        if row is None:
            self._later(quarantine_id, page)
            return
        page.version, page.failures, page.under_way = row.version, 0, False
        if row.case != page.case:
            self._write(quarantine_id, page)
        elif not row.case.open:
            del self._pages[quarantine_id]

    def _later(self, quarantine_id: str, page: Page) -> None:
        page.failures += 1
        delay = self._backoff.delay(page.failures, self._ctx.system.random.random())
        log.warning("quarantine.not_stored", subject=str(page.case.subject), failures=page.failures)
        self._ctx.set_timer(f"keep:{quarantine_id}", delay, KeepAgain(quarantine_id=quarantine_id))

    def _read(self, quarantine_id: str) -> None:
        """Look before writing again: the write whose answer was late or lost may have been done."""
        self._ctx.pipe(
            self._store.ask(
                ReadQuarantines(quarantine_id=quarantine_id), self._ctx.within(self._settings.store_s)
            ),
            lambda rows: VersionRead(quarantine_id=quarantine_id, rows=rows),
            lambda error: VersionRead(quarantine_id=quarantine_id, rows=None),
        )

    def _version_read(self, quarantine_id: str, rows: tuple[QuarantineRow, ...] | None) -> None:
        page = self._pages[quarantine_id]
        if rows is None:
            self._later(quarantine_id, page)
            return
        page.version = rows[0].version if rows else 0
        self._write(quarantine_id, page)
