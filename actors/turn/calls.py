"""The tool calls of an answer, put together from their pieces. Pure."""

from collections.abc import Iterable

import msgspec

from actors.messages.lane import ToolCallDelta
from actors.messages.rows import ToolCall


class Calls(msgspec.Struct, frozen=True):
    """The calls so far. A lane numbers them 0, 1, 2 … as they begin."""

    calls: tuple[ToolCall, ...] = ()

    def feed(self, deltas: Iterable[ToolCallDelta]) -> "Calls":
        """Take the next pieces; a number that skips one is not a lane's, and its piece is left out."""
        calls = list(self.calls)
        for delta in deltas:
            if delta.index == len(calls):
                calls.append(ToolCall(call_id=delta.call_id or "", name=delta.name or "", arguments=""))
            if 0 <= delta.index < len(calls):
                call = calls[delta.index]
                calls[delta.index] = ToolCall(
                    call_id=call.call_id or delta.call_id or "",
                    name=call.name or delta.name or "",
                    arguments=call.arguments + delta.arguments,
                )
        return Calls(tuple(calls))

    def beyond(self, known: "Calls") -> tuple[ToolCallDelta, ...]:
        """Return what somebody misses of these who knows only those, an earlier state of them."""
        missing = []
        for index, call in enumerate(self.calls):
            if index >= len(known.calls):
                missing.append(
                    ToolCallDelta(
                        index=index, call_id=call.call_id, name=call.name or None, arguments=call.arguments
                    )
                )
                continue
            before = known.calls[index]
            arguments = call.arguments[len(before.arguments) :]
            name = call.name if call.name != before.name else None
            if arguments or name:
                missing.append(ToolCallDelta(index=index, name=name, arguments=arguments))
        return tuple(missing)
