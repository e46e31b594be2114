"""The typer application: verbs of one family, or of all."""

import importlib

import typer

from transports.terminal.catalogue import EPILOG, GROUPS, VERBS, family_of
from transports.terminal.place import Options
from transports.terminal.verb import DataDir, Json, Timeout, Token, Url


def build(word: str | None = None) -> typer.Typer:
    """Return the application with the family that ``word`` belongs to; with all of them if it belongs to none."""
    app = typer.Typer(
        name="turnkeepctl",
        rich_markup_mode=None,
        add_completion=False,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        epilog=EPILOG,
    )
    app.callback()(root)
    for name in [family_of(word)] if word in VERBS else dict.fromkeys(map(family_of, VERBS)):
        family: typer.Typer = importlib.import_module(f"transports.terminal.{name}").app
        if name in GROUPS:
            app.add_typer(family, name=name, help=VERBS[name].summary, no_args_is_help=True)
        else:
            app.registered_commands += family.registered_commands
    return app


def root(
    context: typer.Context,
    data_dir: DataDir = None,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
    timeout: Timeout = None,
) -> None:
    """See and steer a running turnkeepd."""
    context.obj = Options(data_dir, url, token, as_json, timeout)
