"""The ledger keeps decisions through crashes, stays within its bounds, and is never in anybody's way."""

import os
import sqlite3
import subprocess
import sys
import textwrap
import time
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from dovetail.observe import ledger as ledgers
from dovetail.observe.ledger import Retention, SqliteLedger
from dovetail.observe.ledger_query import LedgerMissing, LedgerQuery, read_history
from dovetail.observe.ledger_schema import connect, write_open
from dovetail.ports.ledger import DecisionOutcome, LedgerAction, LedgerEnding, LedgerEntry, LedgerNode, LedgerState

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


class Clock:
    def now(self):
        return NOON


def entry(identity="a1", at=NOON, node="node-1", nodepool="default", **more):
    facts = LedgerNode(nodeclaim=f"claim-of-{node}", node=node, nodepool=nodepool, instance_type="m5.large", price=0.1)
    given = {
        "act": LedgerAction.DISRUPT,
        "reason": "Drifted",
        "why": "drifted",
        "nodes": (facts,),
        "pods": ("shop/web-1",),
        **more,
    }
    return LedgerEntry(id=identity, at=at, **given)


def ended(outcome=DecisionOutcome.DONE, **more):
    return LedgerEnding(outcome=outcome, at=NOON + timedelta(minutes=5), **more)


@contextmanager
def writing(path, **more):
    ledger = SqliteLedger(path, Clock(), **more)
    ledger.start()
    try:
        yield ledger
    finally:
        ledger.stop(30)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "ledger.db"


def asked(path, **question):
    return read_history(path, LedgerQuery(**question))


def test_a_decision_is_kept_whole(path):
    made = LedgerNode(nodeclaim="new", node="node-2", nodepool="default", instance_type="m5.xlarge", price=0.04)
    with writing(path) as ledger:
        ledger.open(entry(cost_before=0.1, cost_after=0.05, replacements=1, method="drift"))
        ledger.close("a1", ended(made=(made,), cost_after=0.04))
    (kept,) = asked(path)
    assert (kept.at, kept.reason, kept.outcome, kept.ended_at) == (
        "2026-01-05T12:00:00.000Z",
        "Drifted",
        "done",
        "2026-01-05T12:05:00.000Z",
    )
    assert (kept.nodes[0].node, kept.made, kept.pod_names) == ("node-1", (made,), ("shop/web-1",))
    assert (kept.cost_before, kept.cost_after, kept.replacements, kept.method) == (0.1, 0.04, 1, "drift")


def test_the_first_word_stays(path):
    with writing(path) as ledger:
        ledger.open(entry(why="first"))
        ledger.open(entry(why="second"))
        ledger.close("a1", ended(DecisionOutcome.ROLLED_BACK, note="too late"))
        ledger.close("a1", ended())
    (kept,) = asked(path)
    assert (kept.why, kept.outcome, kept.note) == ("first", "rolled back", "too late")


def test_history_is_asked_by_node_claim_pool_reason_and_time(path):
    with writing(path) as ledger:
        ledger.open(entry("a", NOON - timedelta(days=8), "node-a", reason="Expired"))
        ledger.open(entry("b", NOON - timedelta(days=2), "node-b", "batch"))
        ledger.open(entry("c", NOON, "node-c"))
    assert [each.id for each in asked(path)] == ["c", "b", "a"]
    assert [each.id for each in asked(path, node="node-b")] == ["b"]
    assert [each.id for each in asked(path, node="claim-of-node-b")] == ["b"]
    assert [each.id for each in asked(path, nodepool="default")] == ["c", "a"]
    assert [each.id for each in asked(path, reason="expired")] == ["a"]
    assert [each.id for each in asked(path, since=NOON - timedelta(days=7))] == ["c", "b"]
    assert [each.id for each in asked(path, until=NOON)] == ["b", "a"]
    assert [each.id for each in asked(path, most=1)] == ["c"]


def test_after_a_restart_nobody_knows_the_end_of_what_is_no_longer_under_way(path):
    with writing(path, cluster="one") as ledger:
        for identity in ("running", "lost", "done"):
            ledger.open(entry(identity))
    with writing(path, cluster="two") as ledger:
        ledger.open(entry("elsewhere"))
    with writing(path, cluster="one") as ledger:
        ledger.settle(LedgerState(under_way=frozenset({"running"}), done=frozenset({"done"})), NOON)
    outcomes = {each.id: each.outcome for each in asked(path)}
    assert outcomes == {"running": "under way", "lost": "unknown", "done": "done", "elsewhere": "under way"}


def test_what_turns_out_later_replaces_unknown(path):
    with writing(path) as ledger:
        ledger.open(entry())
        ledger.settle(LedgerState(), NOON)
        ledger.close("a1", ended())
    assert asked(path)[0].outcome == "done"


def test_a_killed_process_loses_nothing_it_had_written(path):
    story = textwrap.dedent(
        f"""
        import os, sys, time
        sys.path[:0] = {sys.path!r}
        from observe.test_ledger import Clock, entry
        from dovetail.observe.ledger import SqliteLedger
        from pathlib import Path
        ledger = SqliteLedger(Path({str(path)!r}), Clock())
        ledger.start()
        for number in range(200):
            ledger.open(entry(str(number)))
        while ledger.health().written < 200:
            time.sleep(0.01)
        os.kill(os.getpid(), 9)
        """
    )
    died = subprocess.run([sys.executable, "-c", story], check=False, timeout=60)
    assert died.returncode == -9
    assert len(asked(path)) == 200
    with writing(path) as ledger:
        ledger.settle(LedgerState(), NOON)
    assert {each.outcome for each in asked(path)} == {"unknown"}


def test_what_is_too_old_is_forgotten(path):
    with writing(path, keep=Retention(age=timedelta(days=7))) as ledger:
        ledger.open(entry("old", NOON - timedelta(days=8)))
        ledger.open(entry("new", NOON - timedelta(days=6)))
    assert [each.id for each in asked(path)] == ["new"]


def test_the_file_stays_within_its_size_and_keeps_the_newest(path, monkeypatch):
    monkeypatch.setattr(ledgers, "_PRUNE_EVERY", 500)
    limit = 300_000
    with writing(path, keep=Retention(size=limit)) as ledger:
        for number in range(3000):
            ledger.open(entry(f"{number:05}", NOON + timedelta(seconds=number), why="x" * 200))
            if number % 500 == 499:
                while ledger.health().written <= number:
                    time.sleep(0.005)
    assert path.stat().st_size < 3 * limit
    kept = [each.id for each in asked(path)]
    assert 100 < len(kept) < 3000
    assert kept[0] == "02999"


def test_a_full_queue_loses_entries_and_says_so(path, monkeypatch):
    monkeypatch.setattr(ledgers, "QUEUE_SIZE", 10)
    ledger = SqliteLedger(path, Clock())
    for number in range(15):
        ledger.open(entry(str(number)))
    assert ledger.health().lost == 5
    ledger.start()
    ledger.stop(30)
    assert ledger.health().written == 10


def test_a_place_that_cannot_be_written_is_said_and_tried_again(tmp_path):
    blocked = tmp_path / "taken"
    blocked.write_text("a file where the directory should be")
    ledger = SqliteLedger(blocked / "ledger.db", Clock())
    ledger.start()
    ledger.open(entry())
    while not ledger.health().trouble:
        time.sleep(0.005)
    assert "--ledger (DOVETAIL_LEDGER)" in ledger.health().trouble
    blocked.unlink()
    deadline = time.monotonic() + 20
    while not ledger.health().written and time.monotonic() < deadline:
        time.sleep(0.02)
    assert ledger.health().trouble == ""
    ledger.stop(30)
    assert len(asked(blocked / "ledger.db")) == 1


def test_a_full_disk_stops_nothing(path, monkeypatch):
    connect = ledgers.connect

    def full(where):
        connection = connect(where)
        connection.execute("PRAGMA max_page_count = 12")
        return connection

    monkeypatch.setattr(ledgers, "connect", full)
    ledger = SqliteLedger(path, Clock())
    ledger.start()
    for number in range(200):
        ledger.open(entry(str(number), why="x" * 2000))
    while not ledger.health().trouble:
        time.sleep(0.005)
    assert "full" in ledger.health().trouble
    ledger.open(entry("one more"))
    ledger.stop(30)
    assert ledger.health().lost > 0


@pytest.mark.parametrize("what", ["newer", "other", "garbage"])
def test_a_file_that_is_not_ours_is_left_as_it_is(tmp_path, what):
    path = tmp_path / "ledger.db"
    if what == "garbage":
        path.write_bytes(b"not a database at all, but long enough to be taken for one" * 40)
    else:
        with closing(sqlite3.connect(path)) as made:
            made.execute("CREATE TABLE theirs (a)")
            if what == "newer":
                made.execute("PRAGMA user_version = 99")
            made.commit()
    before = path.read_bytes()
    ledger = SqliteLedger(path, Clock())
    ledger.start()
    ledger.open(entry())
    while not ledger.health().trouble:
        time.sleep(0.005)
    ledger.stop(30)
    assert path.read_bytes() == before
    with pytest.raises(LedgerMissing, match="cannot be read as a ledger"):
        asked(path)


def test_no_ledger_says_where_it_was_looked_for(tmp_path):
    with pytest.raises(LedgerMissing, match="there is no ledger at"):
        asked(tmp_path / "none.db")


def modes(path):
    return {each.name: each.stat().st_mode & 0o777 for each in path.parent.iterdir()}


def test_the_ledger_is_for_its_owner_alone(path):
    old = os.umask(0o022)
    try:
        connection = connect(path)
        connection.execute("CREATE TABLE more (a)")
        found = modes(path)
        connection.close()
    finally:
        os.umask(old)
    assert found == {"ledger.db": 0o600, "ledger.db-wal": 0o600, "ledger.db-shm": 0o600}
    assert path.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(("before", "after"), [(0o644, 0o600), (0o660, 0o660), (0o640, 0o640)])
def test_a_ledger_that_everybody_could_read_is_closed_and_one_of_a_group_is_not(path, before, after):
    connect(path).close()
    path.chmod(before)
    connect(path).close()
    assert modes(path)["ledger.db"] == after


@pytest.mark.parametrize("names", ["{", '{"a": 1}', "5", '["a", 5]', "[" * 100_000, "\x00"])
def test_pods_whose_names_are_damaged_do_not_hide_the_decision(path, names):
    with closing(connect(path)) as connection:
        write_open(connection, "", entry())
        connection.execute("UPDATE decision SET pod_names = ?", (names,))
        connection.commit()
    assert [each.pod_names for each in asked(path)] == [()]


def removal(identity, *nodes, at=NOON):
    return entry(
        identity,
        at=at,
        act=LedgerAction.DISRUPT,
        nodes=tuple(LedgerNode(nodeclaim=name, price=0.1, expires_at=NOON + timedelta(days=9)) for name in nodes),
    )


def gone_by_claim(path):
    return {(each.id, node.nodeclaim): node.gone_at for each in asked(path) for node in each.nodes}


def test_when_a_removed_node_was_gone_is_kept_once(path):
    with writing(path) as ledger:
        ledger.open(removal("a1", "a", "b"))
        ledger.gone("a1", "a", NOON + timedelta(minutes=3))
        ledger.gone("a1", "a", NOON + timedelta(minutes=9))
    assert gone_by_claim(path) == {("a1", "a"): NOON + timedelta(minutes=3), ("a1", "b"): None}
    assert {node.expires_at for each in asked(path) for node in each.nodes} == {NOON + timedelta(days=9)}


def test_nodes_that_went_while_no_controller_ran_are_gone_at_the_next_start(path):
    """One node is still there, one was kept by its command and removed by a later one."""
    later = NOON + timedelta(hours=1)
    with writing(path) as ledger:
        ledger.open(removal("a1", "went", "there", "kept"))
        ledger.close("a1", LedgerEnding(outcome=DecisionOutcome.DONE, at=NOON))
        ledger.open(removal("b2", "kept", at=NOON + timedelta(minutes=1)))
        ledger.close("b2", LedgerEnding(outcome=DecisionOutcome.DONE, at=NOON))
        ledger.settle(LedgerState(nodeclaims=frozenset({"there"})), later)
    assert gone_by_claim(path) == {
        ("a1", "went"): later,
        ("a1", "there"): None,
        ("a1", "kept"): None,
        ("b2", "kept"): later,
    }
