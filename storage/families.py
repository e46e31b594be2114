"""Which function serves which request: the map of the store."""

import sqlite3
from collections.abc import Callable, Mapping
from typing import Any

from actors.messages import store as requests
from storage import bindings, deliveries, events, history, inbox, keys, sessions, turns
from storage.peers import Peers
from storage.retention import Retain, retain
from storage.seal import Seal

Family = Callable[[sqlite3.Connection, Any], Any]


def families(seal: Seal) -> Mapping[type, Family]:
    """Return the function of each request type."""
    peers = Peers(seal)
    return {
        requests.AcceptMessage: inbox.accept_message,
        requests.RotateChat: inbox.rotate_chat,
        requests.RequeueMessage: inbox.requeue_message,
        requests.BuryMessage: inbox.bury_message,
        requests.SessionsWithMail: inbox.sessions_with_mail,
        requests.TakeTurn: turns.take_turn,
        requests.FlushPartial: turns.flush_partial,
        requests.EndTurn: turns.end_turn,
        requests.GetTurn: turns.get_turn,
        requests.ListTurns: turns.list_turns,
        requests.Unfinished: turns.unfinished,
        requests.OpenSession: sessions.open_session,
        requests.GetSession: sessions.get_session,
        requests.ListSessions: sessions.list_sessions,
        requests.FindBindings: bindings.find_bindings,
        requests.ReadHistory: history.read_history,
        requests.PostToChat: history.post_to_chat,
        requests.EditPost: history.edit_post,
        requests.PutDelivery: deliveries.put_delivery,
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
        Retain: retain,
    }
