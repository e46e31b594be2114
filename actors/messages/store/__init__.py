"""
What can be asked of /store, the only owner of the database.

A write carries ids that the caller chose, so that after a late answer the caller can ask again instead of guessing: a
repetition is answered with what is stored under them (actors.keep). Each write is one transaction; those that arrive
together share a commit. Answers come after the commit. All may fail with StoreUnavailable (nothing of the request was
kept) or with a RuntimeFault such as DeadlineExceeded or OutcomeUnknown (it may have been kept).
"""

from actors.messages.store.credentials import (
    FindKey,
    FindPeerBySecret,
    GetPeer,
    ListKeys,
    ListPeers,
    NextLinkGen,
    PutKey,
    PutPeer,
    RevokeKey,
    RevokePeer,
    RotatePeer,
)
from actors.messages.store.deliveries import (
    AdvanceDelivery,
    BeginAnswer,
    ClaimDeliveries,
    ListDeliveries,
    LoseAttempts,
    PeersWithDeliveries,
    PutDelivery,
    SettleDelivery,
    WithdrawBeginning,
)
from actors.messages.store.inbox import AcceptMessage, BuryMessage, RotateChat, SessionsWithMail
from actors.messages.store.request import Read, Write
from actors.messages.store.sessions import (
    EditPost,
    FindBindings,
    GetSession,
    ListSessions,
    OpenSession,
    PostToChat,
    ReadHistory,
)
from actors.messages.store.turns import (
    CompactHistory,
    EndTurn,
    FlushPartial,
    GetTurn,
    ListTurns,
    ReadConversation,
    TakeTurn,
    Unfinished,
)
from actors.messages.store.upkeep import (
    AppendEvents,
    BackedUp,
    BackUp,
    CheckStore,
    LastEventSeq,
    ReadEvents,
    ReadEventsBefore,
    StoreInfo,
)

__all__ = [
    "AcceptMessage",
    "AdvanceDelivery",
    "AppendEvents",
    "BackUp",
    "BackedUp",
    "BeginAnswer",
    "BuryMessage",
    "CheckStore",
    "ClaimDeliveries",
    "CompactHistory",
    "EditPost",
    "EndTurn",
    "FindBindings",
    "FindKey",
    "FindPeerBySecret",
    "FlushPartial",
    "GetPeer",
    "GetSession",
    "GetTurn",
    "LastEventSeq",
    "ListDeliveries",
    "ListKeys",
    "ListPeers",
    "ListSessions",
    "ListTurns",
    "LoseAttempts",
    "NextLinkGen",
    "OpenSession",
    "PeersWithDeliveries",
    "PostToChat",
    "PutDelivery",
    "PutKey",
    "PutPeer",
    "Read",
    "ReadConversation",
    "ReadEvents",
    "ReadEventsBefore",
    "ReadHistory",
    "RevokeKey",
    "RevokePeer",
    "RotateChat",
    "RotatePeer",
    "SessionsWithMail",
    "SettleDelivery",
    "StoreInfo",
    "TakeTurn",
    "Unfinished",
    "WithdrawBeginning",
    "Write",
]
