"""The tracker knows what the ledger's file knows: the same savings from both, whatever happened."""

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.controllers.savings import FORGET_EVERY, SavingsTracker
from dovetail.core.savings import LOOKBACK
from dovetail.observe.ledger import SqliteLedger
from dovetail.observe.ledger_savings import read_savings
from dovetail.ports.ledger import (
    DecisionOutcome,
    LedgerAction,
    LedgerEnding,
    LedgerEntry,
    LedgerNode,
    LedgerState,
    NoLedger,
)

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


class Clock:
    def now(self):
        return NOON + timedelta(days=3)


def at(minutes):
    return NOON + timedelta(minutes=minutes)


def node(name):
    return LedgerNode(nodeclaim=name, nodepool="web", price=0.5, expires_at=NOON + timedelta(days=2), peers=3)


claims = st.sampled_from(["a", "b", "c"])
ids = st.sampled_from(["c1", "c2", "l1", "r1"])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("open"), ids, st.lists(claims, min_size=1, max_size=2, unique=True)),
        st.tuples(st.just("close"), ids, st.sampled_from(DecisionOutcome), st.booleans()),
        st.tuples(st.just("gone"), ids, claims),
        st.tuples(st.just("settle"), st.frozensets(ids), st.frozensets(ids), st.frozensets(claims)),
    ),
    max_size=12,
)
ACTS = {"c": LedgerAction.DISRUPT, "l": LedgerAction.LAUNCH, "r": LedgerAction.REMOVE}


def play(ledger, story):
    for minute, (what, *given_) in enumerate(story):
        now = at(10 * minute)
        if what == "open":
            identity, names = given_
            ledger.open(
                LedgerEntry(
                    id=identity,
                    at=now,
                    act=ACTS[identity[0]],
                    reason="Interrupted" if identity[0] == "r" else "Empty",
                    why="",
                    nodes=tuple(map(node, names)),
                    cost_after=0.25,
                )
            )
        elif what == "close":
            identity, outcome, made = given_
            launched = (LedgerNode(nodeclaim=f"{identity}-r", nodepool="web", price=0.25),) if made else ()
            ledger.close(identity, LedgerEnding(outcome=outcome, at=now, made=launched))
        elif what == "gone":
            ledger.gone(*given_, now)
        else:
            under_way, done, nodeclaims = given_
            ledger.settle(LedgerState(under_way=under_way, done=done, nodeclaims=nodeclaims), now)


@settings(max_examples=200, deadline=None)
@given(steps)
def test_the_tracker_and_the_file_agree(tmp_path_factory, story):
    path = tmp_path_factory.mktemp("ledger") / "ledger.db"
    file = SqliteLedger(path, Clock())
    tracker = SavingsTracker(file)
    play(tracker, story)
    file.start()
    file.stop(30)
    until = at(10_000)
    read = read_savings(path, None, until) if story else {}
    assert {each.id: (each.counted, each.periods, each.rate) for each in tracker.savings(until)} == {
        each.id: (each.counted, each.periods, each.rate) for each in read.values()
    }


def test_decisions_that_no_longer_matter_are_forgotten_unless_all_are_kept():
    for keep, left in ((False, FORGET_EVERY), (True, 2 * FORGET_EVERY)):
        tracker = SavingsTracker(NoLedger())
        if keep:
            tracker.keep_all()
        for number in range(2 * FORGET_EVERY):
            when = NOON + (LOOKBACK + timedelta(days=1)) * (number // FORGET_EVERY)
            play_one = LedgerEntry(id=f"c{number}", at=when, act=LedgerAction.DISRUPT, reason="Empty", why="")
            tracker.open(play_one)
        assert len(tracker.savings(NOON + 3 * LOOKBACK)) == left
