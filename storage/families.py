"""Which function serves which request: the map of the store."""

import sqlite3
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from actors.messages import quarantine
from actors.messages import store as requests
from storage import (
    acceptance,
    answers,
    bindings,
    chats,
    compactions,
    deliveries,
    events,
    history,
    inbox,
    keys,
    quarantines,
    sessions,
    turns,
)
from storage.conversations import Conversations
from storage.peers import Peers
from storage.retention import Retain, retain
from storage.seal import Seal
from storage.settings import RetentionSettings

Family = Callable[[sqlite3.Connection, Any], Any]
"""Serves one type of request inside a transaction. It raises a Refusal to say no; then nothing of it is kept."""


def families(seal: Seal, conversations: Conversations, retention: RetentionSettings) -> Mapping[type, Family]:
    """Return the function of each request type."""
    peers = Peers(seal)
    return {
        requests.AcceptMessage: acceptance.accept_message,
        requests.RotateChat: acceptance.rotate_chat,
        requests.BuryMessage: inbox.bury_message,
        requests.SessionsWithMail: inbox.sessions_with_mail,
        requests.TakeTurn: partial(turns.take_turn, conversations=conversations),
        requests.FlushPartial: turns.flush_partial,
        requests.EndTurn: turns.end_turn,
        requests.GetTurn: turns.get_turn,
        requests.ListTurns: turns.list_turns,
        requests.Unfinished: turns.unfinished,
        requests.OpenSession: chats.open_session,
        requests.GetSession: sessions.get_session,
        requests.ListSessions: sessions.list_sessions,
        requests.FindBindings: bindings.find_bindings,
        requests.ReadHistory: history.read_history,
        requests.ReadConversation: partial(compactions.read_conversation, rows=conversations.rows),
        requests.CompactHistory: partial(compactions.compact_history, conversations=conversations),
        requests.PostToChat: chats.post_to_chat,
        requests.EditPost: partial(history.edit_post, conversations=conversations),
        requests.PutDelivery: deliveries.put_delivery,
        requests.BeginAnswer: answers.begin_answer,
        requests.WithdrawBeginning: answers.withdraw_beginning,
        requests.ClaimDeliveries: deliveries.claim_deliveries,
        requests.AdvanceDelivery: deliveries.advance_delivery,
        requests.SettleDelivery: deliveries.settle_delivery,
        requests.LoseAttempts: deliveries.lose_attempts,
        requests.ListDeliveries: deliveries.list_deliveries,
        requests.PeersWithDeliveries: deliveries.peers_with_deliveries,
        requests.PutPeer: peers.put,
        requests.RotatePeer: peers.rotate,
        requests.RevokePeer: peers.revoke,
        requests.GetPeer: peers.get,
        requests.FindPeerBySecret: peers.find_by_secret,
        requests.ListPeers: peers.list,
        requests.NextLinkGen: peers.next_link_gen,
        requests.PutKey: keys.put_key,
        requests.FindKey: keys.find_key,
        requests.RevokeKey: keys.revoke_key,
        requests.ListKeys: keys.list_keys,
        requests.AppendEvents: events.append_events,
        requests.LastEventSeq: events.last_event_seq,
        requests.ReadEvents: events.read_events,
        requests.ReadEventsBefore: events.read_events_before,
        quarantine.KeepQuarantine: quarantines.keep_quarantine,
        quarantine.ReadQuarantines: quarantines.read_quarantines,
        Retain: partial(retain, settings=retention),
    }
