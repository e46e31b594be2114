"""
Tool calls and their answers on the wire: behind each message that asks for calls come their answers, one for each call.

Histories are not so: a person speaks before a tool has answered, a turn that was stopped is asked for again, the oldest
messages are cut off. Only the copy for a backend is put right; what is stored stays as it was. Pure.
"""

from collections.abc import Iterable, Sequence

import msgspec

from actors.messages.rows import Entry, ToolCall

UNANSWERED = "cancelled, outcome unknown"
"""What a model gets of a call that nobody has answered."""

Asked = tuple[Entry, dict[str, Entry]]
"""A message that asks for calls, and the newest answer to each."""


def answered(entries: Sequence[Entry]) -> list[Entry]:
    """
    Return the entries with the answers in their places.

    An answer is to the newest message before it that asks for its call; of several to one call the last one counts. Calls
    that are answered only after the assistant has spoken again move to their answers: they are what the conversation
    goes on from. An answer to a call that is not there is left out.
    """
    asked: dict[int, Asked] = {}
    moved: dict[int, int] = {}
    asking: dict[str, int] = {}
    spoken = -1
    for place, entry in enumerate(entries):
        if entry.role == "assistant":
            spoken = place
            if entry.tool_calls:
                asked[place] = (_with_calls_apart(entry), {})
                asking.update((call.call_id, place) for call in entry.tool_calls)
        elif entry.role == "tool" and entry.tool_call_id in asking:
            asker = asking[entry.tool_call_id]
            asked[asker][1][entry.tool_call_id] = entry
            if asker != spoken:
                moved.setdefault(asker, place)
    return list(_placed(entries, asked, moved))


def _placed(entries: Sequence[Entry], asked: dict[int, Asked], moved: dict[int, int]) -> Iterable[Entry]:
    come = {place: asker for asker, place in moved.items()}
    for place, entry in enumerate(entries):
        if place in come:
            yield from _whole(asked[come[place]])
        elif place in asked:
            if place not in moved:
                yield from _whole(asked[place])
        elif entry.role != "tool":
            yield entry


def _whole(asked: Asked) -> Iterable[Entry]:
    entry, answers = asked
    yield entry
    for call in entry.tool_calls:
        yield answers.get(call.call_id) or Entry(role="tool", content=UNANSWERED, tool_call_id=call.call_id)


def _with_calls_apart(entry: Entry) -> Entry:
    """Leave out calls whose id another one has: no answer could be told from another's."""
    calls: dict[str, ToolCall] = {}
    for call in entry.tool_calls:
        calls.setdefault(call.call_id, call)
    return msgspec.structs.replace(entry, tool_calls=tuple(calls.values()))
