"""The outbox's machine: what a result means, the order of a chat, and what is done when the store is away."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.messages.rows import DeliveryRow, DeliveryState, Route
from actors.relay import outbox_state
from actors.relay.outbox import EDIT_TRIES, step
from actors.relay.outbox_state import (
    Advance,
    AskLater,
    Claim,
    Doubt,
    ListAttempts,
    RestChat,
    SendPart,
    Settle,
    Settlement,
    State,
)

LIMIT = 3
OK = {"success": True, "message_id": "m1"}
READY = State(doubt=None, live=True)


def row(delivery_id="d1", chat="c1", **fields):
    return DeliveryRow(
        delivery_id=delivery_id, peer="p", chat=chat, route=Route(platform="discord", chat_id=chat), content="x",
        turn_id=None, state=DeliveryState.ATTEMPTING, reason=None, attempts=fields.pop("attempts", 1),
        parts_done=fields.pop("parts_done", 0), message_id=None, created_at=0.0, settled_at=None,
    )  # fmt: skip


def sending(delivery, *parts):
    return outbox_state.Sending(delivery=delivery, parts=parts or ("x",), done=delivery.parts_done)


def run(state, *events):
    effects = ()
    for event in events:
        state, effects = step(state, event, LIMIT)
    return state, effects


def claimed(*sendings, full=False):
    return outbox_state.Claimed(sendings, full)


def busy(*sendings):
    """A state in which these are being sent."""
    return run(READY, outbox_state.MailCame(), claimed(*sendings))[0]


def only(effects, kind):
    [found] = [effect for effect in effects if isinstance(effect, kind)]
    return found


# Claims


def test_mail_is_claimed_only_while_a_link_is_up():
    away = State(doubt=None)
    away, effects = run(away, outbox_state.MailCame())
    assert effects == ()
    _, effects = run(away, outbox_state.LinkRose())
    assert effects == (Claim((), LIMIT),)


def test_a_claim_is_out_only_once_and_mail_meanwhile_leads_to_another():
    state, effects = run(READY, outbox_state.MailCame(), outbox_state.MailCame())
    assert effects == ()
    _, effects = run(state, claimed())
    assert effects == (Claim((), LIMIT),)


def test_a_full_claim_leads_to_another():
    _, effects = run(READY, outbox_state.MailCame(), claimed(sending(row()), full=True))
    assert only(effects, Claim) == Claim(("c1",), LIMIT - 1)


def test_no_more_than_the_limit_is_under_way():
    three = [sending(row(f"d{n}", f"c{n}")) for n in range(LIMIT)]
    _, effects = run(busy(*three), outbox_state.MailCame())
    assert effects == ()


def test_nothing_is_claimed_on_hold():
    assert run(READY, outbox_state.Held(), outbox_state.MailCame())[1] == ()


def test_a_claim_that_failed_is_asked_again_after_a_wait_that_grows():
    state, effects = run(READY, outbox_state.MailCame(), outbox_state.AskFailed(unknown=False))
    assert effects == (AskLater(1),)
    assert run(state, outbox_state.MailCame())[1] == ()
    state, effects = run(state, outbox_state.AskDue())
    assert effects == (Claim((), LIMIT),)
    assert run(state, outbox_state.AskFailed(unknown=False))[1] == (AskLater(2),)


def test_a_claim_whose_answer_was_lost_is_looked_for_and_given_back():
    state, _ = run(READY, outbox_state.MailCame(), outbox_state.AskFailed(unknown=True))
    state, effects = run(state, outbox_state.AskDue())
    assert effects == (ListAttempts(),)
    state, effects = run(state, outbox_state.AttemptsListed((row(),)))
    assert only(effects, Settle).settlement.state is DeliveryState.PENDING
    assert only(effects, Claim) == Claim(("c1",), LIMIT - 1)


def test_what_a_crash_left_is_unknown_and_what_is_in_hand_is_not_touched():
    state = msgspec.structs.replace(busy(sending(row("mine", "c2"))), doubt=Doubt.CRASH)
    state, effects = run(state, outbox_state.MailCame())
    assert effects == (ListAttempts(),)
    state, effects = run(state, outbox_state.AttemptsListed((row("mine", "c2"), row("lost"))))
    settlement = only(effects, Settle).settlement
    assert (settlement.delivery_id, settlement.state) == ("lost", DeliveryState.UNKNOWN)


def test_nothing_is_claimed_before_the_doubt_is_over():
    _, effects = run(State(), outbox_state.LinkRose())
    assert effects == (ListAttempts(),)


# Parts


def test_parts_go_one_after_the_other_and_the_last_one_delivers():
    state, effects = run(READY, outbox_state.MailCame(), claimed(sending(row(), "a", "b")))
    assert only(effects, SendPart) == SendPart(row(), 0, "a")
    state, effects = run(state, outbox_state.PartAnswered("d1", OK))
    assert only(effects, SendPart) == SendPart(row(), 1, "b")
    assert only(effects, Advance) == Advance("d1", 1)
    state, effects = run(state, outbox_state.PartAnswered("d1", {"success": True, "message_id": 5}))
    settlement = only(effects, Settle).settlement
    assert (settlement.state, settlement.message_id) == (DeliveryState.DELIVERED, "5")
    assert not state.sending and set(state.settling) == {"d1"}


def test_a_delivery_goes_on_from_the_part_that_failed():
    half = row(parts_done=1)
    _, effects = run(READY, outbox_state.MailCame(), claimed(sending(half, "a", "b")))
    assert only(effects, SendPart) == SendPart(half, 1, "b")


@pytest.mark.parametrize(
    ("result", "state", "reason"),
    [
        ({"success": False, "error": "x", "ambiguous": True}, DeliveryState.UNKNOWN, "outcome_unknown"),
        ({"success": False, "code": "egress_declined"}, DeliveryState.DEAD, "egress_declined"),
        ({"success": False, "error": "egress declined: no"}, DeliveryState.DEAD, "egress_declined"),
        ({"success": False, "error": "relay transport closed"}, DeliveryState.PENDING, "send_failed"),
        ({"success": "yes"}, DeliveryState.PENDING, "send_failed"),
        ({}, DeliveryState.PENDING, "send_failed"),
    ],
    ids=repr,
)
def test_what_a_result_means(result, state, reason):
    _, effects = run(busy(sending(row())), outbox_state.PartAnswered("d1", result))
    settlement = only(effects, Settle).settlement
    assert (settlement.state, settlement.reason) == (state, reason)


def test_a_definite_failure_keeps_the_parts_that_were_delivered():
    state, _ = run(busy(sending(row(), "a", "b")), outbox_state.PartAnswered("d1", OK))
    _, effects = run(state, outbox_state.PartAnswered("d1", {"success": False}))
    settlement = only(effects, Settle).settlement
    assert settlement.advance and settlement.parts_done == 1


def test_a_result_that_nobody_waits_for_changes_nothing():
    assert run(READY, outbox_state.PartAnswered("gone", OK)) == (READY, ())


# Order


def test_a_chat_rests_after_a_failure_and_others_go_on():
    state, effects = run(busy(sending(row(attempts=4))), outbox_state.PartAnswered("d1", {"success": False}))
    assert only(effects, RestChat) == RestChat("c1", 4)
    assert only(effects, Claim) == Claim(("c1",), LIMIT - 1)
    state, _ = run(state, claimed(), outbox_state.Settled("d1"), claimed())
    _, effects = run(state, outbox_state.ChatRested("c1"))
    assert effects == (Claim((), LIMIT),)


def test_a_chat_whose_failure_is_not_stored_yet_is_not_claimed_from():
    # The outcome may be given to the store again: it must not meet the next attempt.
    state, _ = run(busy(sending(row())), outbox_state.PartAnswered("d1", {"success": False}), claimed())
    state, effects = run(state, outbox_state.ChatRested("c1"))
    assert only(effects, Claim).busy_chats == ("c1",)
    _, effects = run(state, claimed(), outbox_state.Settled("d1"))
    assert effects == (Claim((), LIMIT),)


def test_a_new_link_ends_all_rests():
    failed, _ = run(busy(sending(row())), outbox_state.PartAnswered("d1", {"success": False}), claimed())
    state, _ = run(failed, outbox_state.Settled("d1"), claimed())
    state, effects = run(state, outbox_state.LinkRose())
    assert only(effects, outbox_state.EndRests).chats == {"c1"}
    assert only(effects, Claim).busy_chats == ()


def test_without_a_link_there_is_no_rest_as_the_next_link_begins_anew():
    state, effects = run(
        busy(sending(row())), outbox_state.LinkFell(), outbox_state.PartAnswered("d1", {"success": False})
    )
    assert [type(effect) for effect in effects] == [Settle]
    assert not state.resting


def test_a_chat_in_hand_is_not_claimed_from():
    _, effects = run(busy(sending(row())), outbox_state.MailCame())
    assert only(effects, Claim).busy_chats == ("c1",)


def test_a_claim_goes_right_behind_an_outcome():
    _, effects = run(busy(sending(row())), outbox_state.PartAnswered("d1", OK))
    assert [type(effect) for effect in effects] == [Settle, Claim]
    assert only(effects, Claim).busy_chats == ()


# Settlements


def test_an_outcome_is_given_to_the_store_until_it_has_it():
    state, _ = run(busy(sending(row())), outbox_state.PartAnswered("d1", OK), claimed())
    state, effects = run(state, outbox_state.SettleFailed("d1"))
    assert only(effects, Settle).settlement.failures == 1
    state, effects = run(state, outbox_state.SettleFailed("d1"))
    assert only(effects, Settle).settlement.failures == 2
    state, effects = run(state, outbox_state.Settled("d1"))
    # The claim behind the first try saw the chat as being attempted.
    assert effects == (Claim((), LIMIT),) and not state.settling


def test_an_outcome_stored_at_once_needs_no_other_claim():
    state, _ = run(busy(sending(row())), outbox_state.PartAnswered("d1", OK), claimed())
    assert run(state, outbox_state.Settled("d1"))[1] == ()


def test_answers_about_unknown_outcomes_change_nothing():
    assert run(READY, outbox_state.Settled("gone")) == (READY, ())
    assert run(READY, outbox_state.SettleFailed("gone")) == (READY, ())


def test_every_state_knows_every_event():
    with pytest.raises(TypeError):
        step(READY, object(), LIMIT)


# A store and a link that do what they like, within what they promise

CHOICES = st.lists(st.integers(min_value=0, max_value=9), min_size=1, max_size=120)


@given(CHOICES)
def test_each_delivery_ends_once_and_chats_keep_their_order(choices):
    pending = {f"d{n}": f"c{n % 2}" for n in range(6)}
    order = {chat: [key for key, value in pending.items() if value == chat] for chat in ("c0", "c1")}
    attempting, done, sent = set(), [], []
    state, effects = run(State(), outbox_state.LinkRose())
    queue = list(effects)
    picks = iter([*choices, *[0] * 400])
    while queue and len(done) < 6:
        pick = next(picks, 0)
        effect = queue.pop(pick % len(queue) if isinstance(queue[0], SendPart) else 0)
        fails = pick in (7, 8)
        match effect:
            case ListAttempts():
                event = outbox_state.AttemptsListed(())
            case Claim(busy_chats=busy_chats, limit=limit):
                rows = []
                for chat, keys in order.items():
                    open_keys = [key for key in keys if key not in done]
                    free = chat not in busy_chats and not any(key in attempting for key in open_keys)
                    if open_keys and free and len(rows) < limit:
                        rows.append(row(open_keys[0], chat))
                        attempting.add(open_keys[0])
                event = outbox_state.Claimed(tuple(sending(entry) for entry in rows), len(rows) >= limit)
            case SendPart(delivery=delivery):
                sent.append(delivery.delivery_id)
                event = outbox_state.PartAnswered(delivery.delivery_id, {"success": not fails})
            case Settle(settlement=Settlement() as settlement) if fails and settlement.failures < 2:
                event = outbox_state.SettleFailed(settlement.delivery_id)
            case Settle(settlement=settlement):
                attempting.discard(settlement.delivery_id)
                if settlement.state is DeliveryState.DELIVERED:
                    done.append(settlement.delivery_id)
                event = outbox_state.Settled(settlement.delivery_id)
            case RestChat(chat=chat):
                event = outbox_state.ChatRested(chat)
            case _:
                continue
        state, more = step(state, event, LIMIT)
        queue += more
    assert sorted(done) == sorted(pending)
    for keys in order.values():
        assert [key for key in done if key in keys] == keys


# Edits of a message that shows a beginning

PLACE = ("c1", "s1")
REFUSED = {"success": False, "error": "no such message"}
LATER = {"success": False, "error": "slow down", "retry_after": 7}
LOST = {"success": False, "error": "relay transport connection lost", "ambiguous": True}


def ending(*parts, edits="s1", whole=None, **fields):
    parts = parts or ("x",)
    whole = parts if whole is None else whole
    return outbox_state.Sending(delivery=row(**fields), parts=parts, done=0, edits=edits, whole=whole)


def test_the_first_part_of_an_end_edits_and_the_others_are_sent():
    state, effects = run(READY, outbox_state.MailCame(), claimed(ending("a", "b")))
    assert only(effects, SendPart) == SendPart(row(), 0, "a", "s1")
    state, effects = run(state, outbox_state.PartAnswered("d1", {"success": True}))
    assert only(effects, SendPart) == SendPart(row(), 1, "b", None)
    _, effects = run(state, outbox_state.PartAnswered("d1", OK))
    assert only(effects, Settle).settlement.message_id == "m1"


@pytest.mark.parametrize(("result", "message_id"), [({}, "s1"), ({"message_id": 7}, "7")])
def test_an_edit_delivers_under_the_id_of_its_message_unless_the_peer_names_another(result, message_id):
    _, effects = run(busy(ending()), outbox_state.PartAnswered("d1", {"success": True, **result}))
    settlement = only(effects, Settle).settlement
    assert (settlement.state, settlement.message_id) == (DeliveryState.DELIVERED, message_id)


def test_an_end_waits_for_an_edit_of_its_message_only():
    other = msgspec.structs.replace(ending(), delivery=row("d2", "c2"))
    state, effects = run(
        READY,
        outbox_state.EditBegan(PLACE, "Hel"),
        outbox_state.MailCame(),
        claimed(ending(), other),
        outbox_state.MailCame(),
    )
    assert [entry.waits for entry in state.sending.values()] == [True, False]
    assert set(only(effects, Claim).busy_chats) == {
        "c1",
        "c2",
    }
    assert run(state, outbox_state.EditOver(("c2", "s1")))[1] == ()
    state, effects = run(state, outbox_state.EditOver(PLACE))
    assert effects == (SendPart(row(), 0, "x", "s1"),)
    assert state.editing == frozenset()
    assert run(state, outbox_state.EditOver(PLACE))[1] == ()


def test_an_end_is_sent_whole_to_a_peer_that_says_nothing_to_edits():
    waiting, _ = run(
        READY,
        outbox_state.EditBegan(PLACE, "Hel"),
        outbox_state.MailCame(),
        claimed(ending("in place", whole=("x",))),
    )
    _, effects = run(waiting, outbox_state.EditOver(PLACE, answered=False))
    assert effects == (SendPart(row(), 0, "x", None),)
    # One that makes sense in place only has no other chance.
    waiting, _ = run(
        READY,
        outbox_state.EditBegan(PLACE, "Hel"),
        outbox_state.MailCame(),
        claimed(ending("in place", whole=())),
    )
    _, effects = run(waiting, outbox_state.EditOver(PLACE, answered=False))
    assert effects == (SendPart(row(), 0, "in place", "s1"),)


def test_an_end_that_its_message_may_show_is_unknown_rather_than_said_again():
    editing, _ = run(READY, outbox_state.EditBegan(PLACE, "x"), outbox_state.MailCame(), claimed(ending("x")))
    state, effects = run(editing, outbox_state.EditOver(PLACE, answered=False))
    assert only(effects, Settle).settlement.state is DeliveryState.UNKNOWN
    assert not state.sending
    # The edit before was lost with its link; the last one is refused.
    state, effects = run(editing, outbox_state.EditOver(PLACE))
    assert effects == (SendPart(row(), 0, "x", "s1"),)
    _, effects = run(state, outbox_state.PartAnswered("d1", REFUSED))
    assert only(effects, Settle).settlement.state is DeliveryState.UNKNOWN
    # It never left.
    state, _ = run(editing, outbox_state.EditOver(PLACE, unsent=True))
    assert run(state, outbox_state.PartAnswered("d1", REFUSED))[1] == (SendPart(row(), 0, "x", None),)


def test_where_nothing_can_be_edited_any_more_the_whole_is_sent_unless_the_message_may_show_it():
    end = msgspec.structs.replace(ending("x"), editable=False)
    state, effects = run(READY, outbox_state.MailCame(), claimed(end))
    assert only(effects, SendPart) == SendPart(row(), 0, "x", None)
    # Another link let an edit to the same text go unanswered.
    lost, _ = run(
        READY, outbox_state.EditBegan(PLACE, "x"), outbox_state.EditOver(PLACE), outbox_state.MailCame()
    )
    state, effects = run(lost, claimed(end))
    assert only(effects, Settle).settlement.state is DeliveryState.UNKNOWN and not state.sending
    # One is on its way.
    editing, effects = run(READY, outbox_state.EditBegan(PLACE, "x"), outbox_state.MailCame(), claimed(end))
    assert not [effect for effect in effects if isinstance(effect, SendPart | Settle)]
    state, effects = run(editing, outbox_state.EditDone(PLACE))
    assert only(effects, Settle).settlement.state is DeliveryState.DELIVERED
    _, effects = run(editing, outbox_state.EditOver(PLACE))
    assert only(effects, Settle).settlement.state is DeliveryState.UNKNOWN


@pytest.mark.parametrize("parts", [("x",), ("x", "y")])
def test_an_end_that_its_message_shows_already_is_not_edited_in(parts):
    shown, _ = run(
        READY, outbox_state.EditBegan(PLACE, "x"), outbox_state.EditDone(PLACE), outbox_state.MailCame()
    )
    waiting, _ = run(
        READY, outbox_state.EditBegan(PLACE, "x"), outbox_state.MailCame(), claimed(ending(*parts))
    )
    for _, effects in (run(shown, claimed(ending(*parts))), run(waiting, outbox_state.EditDone(PLACE))):
        if parts == ("x",):
            settlement = only(effects, Settle).settlement
            assert (settlement.state, settlement.message_id) == (DeliveryState.DELIVERED, "s1")
        else:
            assert only(effects, SendPart) == SendPart(row(), 1, "y", None)
            assert only(effects, Advance) == Advance("d1", 1)


def test_what_a_beginning_shows_is_known_until_another_edit_of_it_begins():
    beginning = msgspec.structs.replace(row("b"), begins=True)
    state, _ = run(busy(sending(beginning)), outbox_state.PartAnswered("b", {**OK, "message_id": "s1"}))
    state, _ = run(state, claimed(), outbox_state.Settled("b"), outbox_state.MailCame())
    _, effects = run(state, claimed(ending("x")))
    assert only(effects, Settle).settlement.state is DeliveryState.DELIVERED
    _, effects = run(state, claimed(ending("x more")))
    assert only(effects, SendPart) == SendPart(row(), 0, "x more", "s1")
    editing, _ = run(state, outbox_state.EditBegan(PLACE, "x more"), claimed(ending("x")))
    assert run(editing, outbox_state.EditOver(PLACE))[1] == (SendPart(row(), 0, "x", "s1"),)


def test_what_a_message_shows_is_forgotten_with_its_end():
    state, _ = run(
        READY, outbox_state.EditBegan(PLACE, "Hel"), outbox_state.EditOver(PLACE), outbox_state.MailCame()
    )
    state, _ = run(state, claimed(ending("x")))
    pending, _ = run(
        state, outbox_state.PartAnswered("d1", {"success": False, "error": "relay transport closed"})
    )
    assert set(pending.showing) == {PLACE}
    for result in (OK, LOST):
        assert run(state, outbox_state.PartAnswered("d1", result))[0].showing == {}
    assert run(state, outbox_state.EditDone(("c9", "s9"))) == (state, ())


def test_an_edit_that_is_refused_is_followed_by_the_whole_once():
    state, effects = run(busy(ending("in place", whole=("a", "b"))), outbox_state.PartAnswered("d1", REFUSED))
    assert effects == (SendPart(row(), 0, "a", None),)
    assert only(run(state, outbox_state.PartAnswered("d1", OK))[1], SendPart) == SendPart(row(), 1, "b", None)
    settlement = only(run(state, outbox_state.PartAnswered("d1", REFUSED))[1], Settle).settlement
    assert settlement.state is DeliveryState.PENDING


@pytest.mark.parametrize(
    ("result", "state", "reason"),
    [
        (REFUSED, DeliveryState.DEAD, "edit_refused"),
        ({"success": False, "code": "egress_declined"}, DeliveryState.DEAD, "edit_refused"),
        (LOST, DeliveryState.UNKNOWN, "outcome_unknown"),
        ({"success": False, "error": "relay transport closed"}, DeliveryState.PENDING, "send_failed"),
        ({"success": False, "error": "relay transport not connected"}, DeliveryState.PENDING, "send_failed"),
        (LATER, DeliveryState.PENDING, "send_failed"),
    ],
    ids=repr,
)
def test_what_the_result_of_an_edit_means_if_there_is_nothing_else_to_say(result, state, reason):
    _, effects = run(busy(ending("in place", whole=())), outbox_state.PartAnswered("d1", result))
    settlement = only(effects, Settle).settlement
    assert (settlement.state, settlement.reason) == (state, reason)


@pytest.mark.parametrize("result", [LOST, {"success": False, "error": "too many requests"}, LATER], ids=repr)
def test_the_whole_is_not_sent_while_the_edit_may_still_be_made(result):
    _, effects = run(busy(ending()), outbox_state.PartAnswered("d1", result))
    assert not [effect for effect in effects if isinstance(effect, SendPart)]


def test_an_edit_that_is_wanted_later_is_tried_a_few_times():
    _, effects = run(busy(ending()), outbox_state.PartAnswered("d1", LATER))
    assert only(effects, RestChat) == RestChat("c1", 1, 7.0)
    _, effects = run(busy(ending(attempts=EDIT_TRIES)), outbox_state.PartAnswered("d1", LATER))
    assert only(effects, SendPart).edits is None


def test_a_retry_from_a_later_part_edits_nothing():
    half = msgspec.structs.replace(ending("a", "b"), done=1)
    _, effects = run(READY, outbox_state.EditBegan(PLACE, "Hel"), outbox_state.MailCame(), claimed(half))
    assert only(effects, SendPart) == SendPart(row(), 1, "b", None)
