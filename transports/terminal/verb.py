"""Turns a coroutine into a verb: adds the common options, connects, and maps failures to exit codes."""

import inspect
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transports.terminal.exits import Failure
from transports.terminal.place import Options, Place

if TYPE_CHECKING:
    from transports.terminal.client import AdminClient

DataDir = Annotated[
    str | None, typer.Option("--data-dir", metavar="DIR", help="The daemon's data directory.")
]
Url = Annotated[str | None, typer.Option("--url", metavar="URL", help="The daemon's address instead.")]
Token = Annotated[str | None, typer.Option("--token", metavar="KEY", help="The admin key to show.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Timeout = Annotated[
    float | None, typer.Option("--timeout", metavar="S", min=0.001, help="Seconds to wait for an answer.")
]

COMMON = {"data_dir": DataDir, "url": Url, "token": Token, "as_json": Json, "timeout": Timeout}


class Desk:
    """What a verb works with: its options, and connections."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.place = Place(options)

    @property
    def as_json(self) -> bool:
        """Whether the answer is for a program."""
        return self.options.as_json

    async def connect(self, seconds: float | None = None) -> "AdminClient":
        """Open a connection whose answers are waited for that long, unless --timeout says something else."""
        from transports.terminal.client import AdminClient

        timeout = self.options.timeout
        return await AdminClient.open(self.place, timeout if timeout is not None else seconds)

    async def call(self, request_type: str, **fields: Any) -> dict[str, Any]:
        """Ask one thing on a connection of its own."""
        async with await self.connect() as client:
            return await client.call(request_type, **fields)


INTERRUPTED = 130
"""What shells expect of a command that Ctrl-C ended."""

Work = Callable[..., Coroutine[Any, Any, None]]
"""A verb: its first parameter is the Desk, the others are arguments and options."""


def verb(app: typer.Typer, name: str) -> Callable[[Work], Work]:
    """Register a verb; its docstring's first line is what the help says of it."""

    def register(work: Work) -> Work:
        signature = inspect.signature(work)
        own = list(signature.parameters.values())[1:]
        parameters = [
            inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context),
            *(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own),
            *(_common(name, annotation) for name, annotation in COMMON.items()),
        ]

        def run(context: typer.Context, **given: Any) -> None:
            options = Options(**{name: given.pop(name) for name in COMMON})
            perform(work, Desk(options.over(context.obj or Options())), given)

        run.__doc__ = work.__doc__
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # read by typer
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        app.command(name)(run)
        return work

    return register


def _common(name: str, annotation: Any) -> inspect.Parameter:
    default = False if name == "as_json" else None
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def perform(work: Work, desk: Desk, given: dict[str, Any]) -> None:
    """Run a verb to its end; a failure becomes a sentence on stderr and an exit code."""
    import asyncio

    try:
        asyncio.run(work(desk, **given))
    except Failure as failure:
        print(f"turnkeepctl: {failure}", file=sys.stderr)
        raise typer.Exit(failure.exit_code) from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
