"""/relays/console: the built-in connector, whose chats are stored histories that people read in Turnkeep itself."""

from typing import Any

from actors.exceptions import Invalid
from actors.keep import keep
from actors.messages.descriptor import Descriptor
from actors.messages.relay import PerformAction, Result
from actors.messages.rows import HistoryRow
from actors.messages.store import EditPost, PostToChat, Write
from actors.relay import results
from actors.relay.actions import ChatInfo, Edit, FollowUp, Send, read
from actors.relay.gathering import answer_with
from actors.relay.settings import RelaySettings
from actors.runtime import DEFERRED, Actor, Ref

PEER = "console"
"""The name space of the console's chats in the store."""

SEQ_DIGITS = 18
"""More than any row's number has, and few enough for the store's integers."""

OPS = ("send", "edit", "typing", "follow_up", "get_chat_info")


def console_descriptor(platform: str) -> Descriptor:
    """Return what the console can do on a platform."""
    return Descriptor(platform=platform, label="Turnkeep console", supports_edit=True, supported_ops=OPS)


class Console(Actor):
    """Acts for gateways on the platforms of which Turnkeep is the connector."""

    kind = "console"

    def __init__(self, *, store: Ref, settings: RelaySettings) -> None:
        self._store = store
        self._settings = settings

    async def on_receive(self, message: Any) -> Any:
        """Perform one action."""
        if not isinstance(message, PerformAction):
            return None
        try:
            return self._perform(message)
        except Invalid as invalid:
            return results.failure(invalid.message)

    def _perform(self, message: PerformAction) -> Any:
        action = message.action
        match action.get("op"):
            case "send":
                send = read(action, Send)
                key = f"agent:main:{message.platform}:dm:{send.chat_id}"
                return self._post(message, key, send.content)
            case "follow_up":
                follow_up = read(action, FollowUp)
                return self._post(
                    message, _key_on(message.platform, follow_up.session_key), follow_up.content
                )
            case "edit":
                return self._edit(message, read(action, Edit))
            case "typing":
                return {"success": True}
            case "get_chat_info":
                chat_id = read(action, ChatInfo).chat_id
                return {"success": True, "chat_info": {"name": chat_id, "type": "dm"}}
        return results.unsupported_op()

    def _post(self, message: PerformAction, session_key: str, content: str) -> Any:
        request = PostToChat(
            at=self.ctx.wall(),
            peer=PEER,
            scope=None,
            session_key=session_key,
            new_session_id=self.ctx.system.new_id(),
            post_id=self.ctx.system.new_id(),
            author=message.gateway,
            content=content,
        )
        return self._store_it(request, _posted)

    def _edit(self, message: PerformAction, edit: Edit) -> Any:
        if not (edit.message_id.isdecimal() and len(edit.message_id) <= SEQ_DIGITS):
            return results.failure("no such message")
        request = EditPost(
            at=self.ctx.wall(), seq=int(edit.message_id), author=message.gateway, content=edit.content
        )
        return self._store_it(
            request, lambda edited: {"success": True} if edited else results.failure("no such message")
        )

    def _store_it(self, request: Write[Any], on_value: Any) -> Any:
        kept = keep(self._store, request, self.ctx.within(self._settings.store_s))
        self.ctx.run(answer_with(self.ctx.defer(), kept, results.of_error, on_value), "store")
        return DEFERRED


def _posted(row: HistoryRow) -> Result:
    return {"success": True, "message_id": str(row.seq)}


def _key_on(platform: str, session_key: str) -> str:
    """Return a session key of that platform. Raises Invalid for any other."""
    parts = session_key.split(":")
    if len(parts) < 4 or parts[0] != "agent" or parts[2] != platform:
        raise Invalid("session_key: not of this platform")
    return session_key
