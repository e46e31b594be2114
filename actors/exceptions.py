"""
Every exception that crosses a module border of Turnkeep.

* TurnkeepError
    * RuntimeFault: the runtime could not carry a message
        * ActorStopped: the actor is gone, or went before it handled the message
            * ActorQuarantined: it is held until it has ended or an operator releases it
            * ActorLost: it went while it was at the message
        * MailboxFull: the ordinary lane is at its bound
        * DeadlineExceeded: the budget ended first
        * OutcomeUnknown: nobody can say whether a write was kept
        * HandlerFailed: the handler of an asked message raised
        * StartFailed: the actor never became ready
        * BlockingCall: a synchronous wait on the event loop's own thread
        * CallCycle: actors that wait for each other, which none of them could end
    * Refusal: an actor understood the request and says no; the actor lives on
        * Invalid: the request is wrong; sending it again will not help
        * NotFound: nothing has that name
        * Conflict: the present state does not allow it
        * Forbidden: the asker may not
        * Busy: a bound is reached; try again later
        * Unavailable: what it needs is not there now; try again later
    * StoreFault: the database cannot be used
        * StoreUnavailable: it cannot write now (disk full, locked, read-only)
        * SchemaTooNew: a newer Turnkeep wrote it
        * DataDirLocked: another daemon owns the data directory
    * ConfigError: a setting is wrong; the text names it and what to write instead
"""


class TurnkeepError(Exception):
    """Base of all exceptions of this project."""


class RuntimeFault(TurnkeepError):
    """The runtime could not carry a message to its end."""


class ActorStopped(RuntimeFault):
    """The actor named by ``path`` is gone, or went before it handled the message."""

    def __init__(self, path: str, why: str = "stopped") -> None:
        super().__init__(f"{path} {why}")
        self.path = path


class ActorQuarantined(ActorStopped):
    """The actor named by ``path`` is quarantined: it takes no messages until it is released."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "is quarantined: see turnkeepctl quarantine list")


class ActorLost(ActorStopped):
    """The actor named by ``path`` went after it had begun on the message: how far it came is not known."""


class MailboxFull(RuntimeFault):
    """The ordinary lane of ``path`` is at its bound and its policy is to refuse."""

    def __init__(self, path: str) -> None:
        super().__init__(f"the mailbox of {path} is full")
        self.path = path


class DeadlineExceeded(RuntimeFault):
    """The budget ended before ``what`` did. Work already begun may still finish: the outcome is unknown."""

    def __init__(self, what: str) -> None:
        super().__init__(f"no time left for {what}")
        self.what = what


class OutcomeUnknown(RuntimeFault):
    """Whether the write ``what`` was kept is not known: its answer is late or lost, and so is that to its repetition."""

    def __init__(self, what: str) -> None:
        super().__init__(f"whether {what} was done is not known; look before you repeat it")
        self.what = what


class HandlerFailed(RuntimeFault):
    """The handler of an asked message raised; carries the class name only, never the text."""

    def __init__(self, path: str, error_class: str) -> None:
        super().__init__(f"{path} failed with {error_class}")
        self.path = path
        self.error_class = error_class


class StartFailed(RuntimeFault):
    """``on_start`` raised, so the actor never became ready; ``why`` is our own text, or a foreign class name."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path} did not start: {why}")
        self.path = path
        self.why = why


class BlockingCall(RuntimeFault):
    """A synchronous wait on the event loop's own thread, where it would be a deadlock."""


class CallCycle(RuntimeFault):
    """The answer that a handler was about to wait for waits for that handler; ``paths`` from it round to itself."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        super().__init__(f"handlers wait for each other: {' → '.join(paths)}")
        self.paths = paths


class Refusal(TurnkeepError):
    """An actor understood the request and says no. ``code`` is stable; the text is for people."""

    code = "refused"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code

    @property
    def message(self) -> str:
        """One sentence that says what is wrong and what to do."""
        return str(self)


class Invalid(Refusal):
    """The request is wrong; sending it again will not help."""

    code = "invalid"


class NotFound(Refusal):
    """Nothing has that name."""

    code = "not_found"


class Conflict(Refusal):
    """The present state does not allow it."""

    code = "conflict"


class Forbidden(Refusal):
    """The asker may not do that."""

    code = "forbidden"


class Busy(Refusal):
    """A bound is reached; trying again later may succeed."""

    code = "busy"


class Unavailable(Refusal):
    """Something it needs is not there now; trying again later may succeed."""

    code = "unavailable"


class StoreFault(TurnkeepError):
    """The database cannot be used."""


class StoreUnavailable(StoreFault):
    """The database cannot write now (disk full, locked, read-only); nothing of the request was kept."""


class SchemaTooNew(StoreFault):
    """The database was written by a newer Turnkeep."""


class DataDirLocked(StoreFault):
    """Another daemon owns the data directory."""


class ConfigError(TurnkeepError):
    """A setting is wrong; the text names the setting and what to write instead."""
