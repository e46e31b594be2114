"""A link as its peer knows it."""

import msgspec

from actors.messages.descriptor import Descriptor
from actors.messages.rows import PeerRole, PeerRow
from actors.relay.settings import RelaySettings
from actors.runtime import Budget, Context, Ref


class PeerLink(msgspec.Struct, frozen=True):
    """One of a peer's links; ``descriptors`` once the handshake is done."""

    link_gen: int
    ref: Ref
    role: PeerRole
    row: PeerRow
    descriptors: tuple[Descriptor, ...] | None = None

    def describes(self, platform: str) -> Descriptor | None:
        """Return what the connector has said of a platform on this link, or None if it has not."""
        return next((known for known in self.descriptors or () if known.platform == platform), None)


def send_budget(ctx: Context, settings: RelaySettings) -> Budget:
    """Return the budget for asking a link to send. It answers in outbound_s; the rest is for its mailbox."""
    return ctx.within(settings.outbound_s + settings.disconnect_s)
