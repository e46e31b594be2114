"""
What can be said to /admin: each request is one message of the admin protocol, told by its ``type`` (ADM).

``scope`` is what a key needs for it. A request that ``changes`` something is audited with the fields that it names
in ``audited``; these never hold a secret or the text of a message (ADM-5).
"""

from actors.messages.admin.actors import (
    ActorOrder,
    GetActor,
    ListActors,
    RestartActor,
    ResumeActor,
    ShowTree,
    StopActor,
    SuspendActor,
    TraceActor,
)
from actors.messages.admin.lanes import ListModelLanes, ReloadModelLanes
from actors.messages.admin.perform import DrainAsked, Perform, ShutdownAsked
from actors.messages.admin.quarantines import ListAllQuarantines, ReconcileNow, ReleaseHeld
from actors.messages.admin.relays import (
    AddKey,
    AddPeer,
    ListAllDeliveries,
    ListAllKeys,
    ListAllPeers,
    ListRelays,
    RevokeKeyAccess,
    RevokePeerAccess,
    RotatePeerSecret,
)
from actors.messages.admin.request import (
    AdminRequest,
    Answer,
    Limit,
    Name,
    Path,
    Platform,
    RequestId,
    Text,
    Word,
    type_of,
)
from actors.messages.admin.sessions import (
    FollowSession,
    ListAllSessions,
    OpenChat,
    SendText,
    ShowHistory,
    ShowSession,
    StopSessionTurn,
    UnfollowSession,
    WatchTurn,
)
from actors.messages.admin.system import (
    BackUpStore,
    Drain,
    ShowSystem,
    ShutDown,
    SubscribeEvents,
    UnsubscribeEvents,
)

__all__ = [
    "REQUESTS",
    "ActorOrder",
    "AddKey",
    "AddPeer",
    "AdminRequest",
    "Answer",
    "BackUpStore",
    "Drain",
    "DrainAsked",
    "FollowSession",
    "GetActor",
    "Limit",
    "ListActors",
    "ListAllDeliveries",
    "ListAllKeys",
    "ListAllPeers",
    "ListAllQuarantines",
    "ListAllSessions",
    "ListModelLanes",
    "ListRelays",
    "Name",
    "OpenChat",
    "Path",
    "Perform",
    "Platform",
    "ReconcileNow",
    "ReleaseHeld",
    "ReloadModelLanes",
    "RequestId",
    "RestartActor",
    "ResumeActor",
    "RevokeKeyAccess",
    "RevokePeerAccess",
    "RotatePeerSecret",
    "SendText",
    "ShowHistory",
    "ShowSession",
    "ShowSystem",
    "ShowTree",
    "ShutDown",
    "ShutdownAsked",
    "StopActor",
    "StopSessionTurn",
    "SubscribeEvents",
    "SuspendActor",
    "Text",
    "TraceActor",
    "UnfollowSession",
    "UnsubscribeEvents",
    "WatchTurn",
    "Word",
    "type_of",
]

REQUESTS: tuple[type[AdminRequest], ...] = tuple(AdminRequest.__subclasses__())
"""All of them; what is not here is not understood."""
