"""Answers that are made of other answers."""

import contextlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from actors.exceptions import TurnkeepError
from actors.runtime import Reply

T = TypeVar("T")


async def answer_all(
    reply: Reply[Any] | None, asked: Iterable[Reply[T]], combine: Callable[[list[T]], Any]
) -> None:
    """Answer with what the others answered, once all have; one that failed is left out."""
    answers: list[T] = []
    for one in asked:
        with contextlib.suppress(TurnkeepError):
            answers.append(await one)
    if reply is not None:
        reply.set(combine(answers))


async def answer_with(
    reply: Reply[Any] | None,
    outcome: Awaitable[T],
    on_error: Callable[[Exception], Any],
    on_value: Callable[[T], Any],
) -> None:
    """Answer with what comes of ``outcome``; a failure is turned into a value, too."""
    try:
        value = on_value(await outcome)
    except TurnkeepError as error:
        value = on_error(error)
    if reply is not None:
        reply.set(value)


def copy_answer(
    asked: Reply[T],
    reply: Reply[Any] | None,
    on_error: Callable[[Exception], Any],
    on_value: Callable[[T], Any] = lambda value: value,
) -> None:
    """Answer as another one does, in the moment it does; a failure is turned into a value, too."""

    def pass_on(done: Reply[T]) -> None:
        if reply is None:
            return
        try:
            value = on_value(done.result())
        except TurnkeepError as error:
            value = on_error(error)
        reply.set(value)

    asked.on_done(pass_on)
