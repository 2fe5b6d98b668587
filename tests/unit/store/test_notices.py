"""The outbox: nothing is lost, nothing is taken twice, and what belongs together leaves in order."""

from __future__ import annotations

import threading
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import update

from assay.errors import UsageError
from assay.store.database import writing
from assay.store.notices import EVERY_CHANNEL, NewNotice, NoticePolicy, Notices, put_in, wait_s
from assay.store.tables import AlertRow

DAY_S = 86_400.0


@pytest.fixture
def notices(fleet, clock):
    with writing(fleet.engine) as session:
        session.add_all(_alert(name) for name in ("a", "b", "c"))
    return Notices(fleet.engine, clock, seed=1)


def _alert(name, state="open"):
    return AlertRow(
        id=name,
        key=f"key {name}",
        state=state,
        severity="warning",
        benchmark="b",
        opened_at=0.0,
        changed_at=0.0,
        snoozed_until=None,
        by="",
        document="{}",
        history="[]",
    )


def new(key="a:1:chat", channel="chat", alert="a", **more):
    return NewNotice(key, channel, alert, "{}", **more)


def test_a_notice_is_kept_once_however_often_it_is_put_in(notices):
    assert notices.put([new(), new()]) == 1
    assert notices.put([new(), new("b:1:chat", alert="b")]) == 1
    assert [one.key for one in notices.list()] == ["b:1:chat", "a:1:chat"]


def test_a_notice_is_part_of_the_transaction_that_opens_its_alert(notices, fleet, clock):
    with writing(fleet.engine) as session:
        session.add(_alert("new"))
        session.flush()
        assert put_in(session, [new("new:1:chat", alert="new")], clock.utc().timestamp()) == 1
        session.rollback()
    assert notices.list() == ()


def test_what_is_taken_is_held_and_what_was_sent_is_never_taken_again(notices, clock):
    notices.put([new()])
    taken = notices.take("chat")
    assert (taken.state, taken.attempts) == ("sending", 1)
    assert notices.take("chat") is None
    assert notices.due() == ()
    assert notices.sent(taken)
    clock.pass_s(30 * DAY_S)
    assert notices.take("chat") is None
    (kept,) = notices.list()
    assert (kept.state, kept.error) == ("sent", "")
    assert kept.sent_at == clock.utc().timestamp() - 30 * DAY_S


def test_channels_do_not_get_each_others_notices(notices):
    notices.put([new(), new("a:1:mail", "mail")])
    assert notices.take("pager") is None
    assert notices.take("mail").key == "a:1:mail"
    assert notices.due() == ("chat",)


def test_a_sender_that_died_is_replaced_when_its_lease_is_over(notices, clock):
    notices.put([new()])
    dead = notices.take("chat")
    clock.pass_s(notices.policy.lease_s - 1)
    assert notices.take("chat") is None
    clock.pass_s(2)
    assert notices.due() == ("chat",)
    second = notices.take("chat")
    assert (second.id, second.attempts) == (dead.id, 2)
    # The first one comes back to life: what it says about a failure does not count any more.
    assert notices.failed(dead, "too late") is None
    assert not notices.keep(dead, "other")
    assert notices.list(state="sending")[0].document == "{}"


def test_that_it_was_taken_is_a_fact_even_after_the_lease(notices, clock):
    notices.put([new()])
    slow = notices.take("chat")
    clock.pass_s(notices.policy.lease_s + 1)
    second = notices.take("chat")
    assert notices.sent(slow)
    assert not notices.sent(second)
    assert notices.list()[0].state == "sent"


def test_after_a_failure_it_waits_longer_each_time_and_no_longer_than_allowed(notices, clock):
    notices.put([new()])
    waits = []
    for _ in range(12):
        taken = notices.take("chat")
        assert notices.failed(taken, "down") == "waiting"
        (kept,) = notices.list()
        waits.append(kept.not_before - clock.utc().timestamp())
        assert notices.take("chat") is None
        clock.pass_s(waits[-1] + 0.001)
    policy = notices.policy
    assert all(wait <= policy.longest_wait_s for wait in waits)
    assert all(2.5 * 2**n <= wait <= 5 * 2**n for n, wait in enumerate(waits[:6]))
    assert len(set(waits[7:])) > 1, "the jitter is gone"


def test_a_wait_that_the_receiver_requests_is_kept(notices, clock):
    notices.put([new()])
    notices.failed(notices.take("chat"), "slow down", after_s=3000)
    clock.pass_s(2999)
    assert notices.take("chat") is None
    clock.pass_s(1)
    assert notices.take("chat") is not None


def test_a_receiver_cannot_ask_for_ever(notices, clock):
    notices.put([new()])
    notices.failed(notices.take("chat"), "slow down", after_s=1e9)
    clock.pass_s(DAY_S)
    assert notices.take("chat") is not None


def test_it_is_given_up_in_the_end_with_a_last_try_before(notices, fleet, clock):
    assert notices.policy.give_up_after_s == 3 * DAY_S
    notices = Notices(fleet.engine, clock, NoticePolicy(give_up_after_s=3600), seed=1)
    notices.put([new()])
    start, tried = clock.utc().timestamp(), []
    while (taken := notices.take("chat")) is not None or notices.list()[0].state == "waiting":
        if taken is not None:
            tried.append(clock.utc().timestamp() - start)
            notices.failed(taken, "still down")
        else:
            clock.pass_s(max(notices.list()[0].not_before - clock.utc().timestamp(), 0.001))
    assert 3600 <= tried[-1] < 3601
    assert notices.list()[0].state == "given-up"
    assert notices.list()[0].error == "still down"
    assert 15 < len(tried) < 40


def test_what_is_not_wanted_is_given_up_at_once_and_can_be_sent_by_hand(notices, clock):
    notices.put([new()])
    assert notices.failed(notices.take("chat"), "refused", retry=False) == "given-up"
    clock.pass_s(DAY_S)
    assert notices.take("chat") is None
    (kept,) = notices.list(state="given-up")
    notices.again(kept.id)
    assert notices.take("chat").attempts == 1


def test_by_hand_only_what_was_given_up_is_sent_again(notices):
    notices.put([new()])
    with pytest.raises(UsageError, match="not given up"):
        notices.again(notices.list()[0].id)
    with pytest.raises(UsageError, match="no notice 99"):
        notices.again(99)


def test_nothing_leaves_before_its_time(notices, clock):
    notices.put([new(not_before=clock.utc().timestamp() + 60)])
    assert notices.take("chat") is None
    clock.pass_s(60)
    assert notices.take("chat") is not None


def test_notices_about_one_alert_leave_in_order_and_others_need_not_wait(notices, clock):
    notices.put([new("a:1:chat"), new("a:2:chat"), new("b:1:chat", alert="b")])
    first = notices.take("chat")
    other = notices.take("chat")
    assert (first.key, other.key) == ("a:1:chat", "b:1:chat")
    assert notices.take("chat") is None
    notices.failed(first, "down")
    assert notices.take("chat") is None, "resolved would have been told before opened"
    clock.pass_s(10)
    notices.sent(notices.take("chat"))
    assert notices.take("chat").key == "a:2:chat"


def test_a_notice_that_was_given_up_holds_up_nothing(notices):
    notices.put([new("a:1:chat"), new("a:2:chat")])
    notices.failed(notices.take("chat"), "refused", retry=False)
    assert notices.take("chat").key == "a:2:chat"


def test_one_for_all_channels_becomes_one_for_each(notices):
    notices.put([new("a:1:*", EVERY_CHANNEL)])
    assert notices.spread([]) == 0
    assert notices.spread(["mail", "chat"]) == 2
    assert notices.spread(["mail", "chat"]) == 0
    assert (notices.take("mail").key, notices.take("chat").key) == ("a:1:mail", "a:1:chat")


def test_who_was_set_by_name_is_not_notified_again_by_one_for_all(notices):
    notices.put([new()])
    notices.sent(notices.take("chat"))
    notices.put([new("a:1:*", EVERY_CHANNEL)])
    assert notices.spread(["mail", "chat"]) == 1
    assert notices.due() == ("mail",)


def test_what_no_server_has_a_channel_for_is_named_and_at_last_given_up(notices, clock):
    notices.put([new("a:1:old", "old"), new()])
    assert notices.unclaimed(["chat"]) == ("old",)
    assert notices.give_up_unclaimed(["chat"]) == ()
    clock.pass_s(3 * DAY_S + 1)
    (given_up,) = notices.give_up_unclaimed(["chat"])
    assert given_up.error == "no server has a channel named 'old'"
    assert notices.unclaimed(["chat"]) == ()
    assert notices.take("chat") is not None


def test_the_last_words_about_what_still_stands(notices, fleet):
    notices.put([new("a:1:am", "am"), new("a:2:am", "am"), new("b:1:am", "am", "b"), new("c:1:am", "am", "c")])
    while taken := notices.take("am"):
        if taken.alert != "c":
            notices.sent(taken)
    assert {one.key for one in notices.standing("am", ("open",))} == {"a:2:am", "b:1:am"}
    with writing(fleet.engine) as session:
        session.execute(update(AlertRow).where(AlertRow.id == "b").values(state="resolved"))
    assert [one.key for one in notices.standing("am", ("open",))] == ["a:2:am"]
    assert notices.standing("chat", ("open",)) == ()


def test_two_servers_share_the_outbox_and_each_notice_is_taken_by_one(notices, fleet, clock):
    with writing(fleet.engine) as session:
        session.add_all(_alert(f"x{number}") for number in range(40))
    notices.put([new(f"x{number}:{turn}:chat", alert=f"x{number}") for number in range(40) for turn in (1, 2)])
    taken, problems = [], []

    def server(number):
        own = Notices(fleet.engine, clock, seed=number)
        try:
            while len(taken) < 80 and (one := own.take("chat") or _blocked(own)):
                if one is not True:
                    taken.append(one.key)
                    own.sent(one)
        except Exception as problem:
            problems.append(problem)

    threads = [threading.Thread(target=server, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert Counter(taken).most_common(1)[0][1] == 1
    assert len(taken) == 80
    for number in range(40):
        assert taken.index(f"x{number}:1:chat") < taken.index(f"x{number}:2:chat")


def _blocked(own):
    """Something is left, though another server holds what comes before it."""
    return bool(own.list(state="waiting") or own.list(state="sending"))


@given(attempts=st.integers(0, 10_000), chance=st.floats(0, 1), first=st.floats(0.01, 60), longest=st.floats(60, 1000))
def test_a_wait_is_never_negative_nor_longer_than_allowed(attempts, chance, first, longest):
    policy = NoticePolicy(first_wait_s=first, longest_wait_s=longest)
    wait = wait_s(policy, attempts, chance)
    assert first / 2 <= wait <= longest
