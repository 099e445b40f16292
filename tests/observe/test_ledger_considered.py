"""What was weighed beside a decision: kept within bounds, read one by one, and added to ledgers made before it."""

import random
import sqlite3
import string
import threading
from contextlib import closing
from datetime import timedelta

import pytest

from dovetail.observe.ledger import Retention
from dovetail.observe.ledger_query import NoSuchDecision, read_decision
from dovetail.observe.ledger_schema import MAX_MESSAGE, MAX_REFUSALS, connect, pack, prune, unpack, used, write_open
from dovetail.ports.ledger import BudgetUse, Considered, PlannedPurchase, Refused, RefusedFor
from observe.test_ledger import NOON, asked, ended, entry, writing

FIRST_SCHEMA = """
CREATE TABLE decision (
    id TEXT PRIMARY KEY, cluster TEXT NOT NULL, at TEXT NOT NULL, act TEXT NOT NULL, reason TEXT NOT NULL,
    why TEXT NOT NULL, method TEXT NOT NULL, replacements INTEGER NOT NULL, pods INTEGER NOT NULL,
    pod_names TEXT NOT NULL, cost_before REAL NOT NULL, cost_after REAL NOT NULL, cost_after_real REAL,
    outcome TEXT, ended_at TEXT, note TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE TABLE node (
    decision TEXT NOT NULL REFERENCES decision (id) ON DELETE CASCADE, made INTEGER NOT NULL,
    nodeclaim TEXT NOT NULL, node TEXT NOT NULL, nodepool TEXT NOT NULL, instance_type TEXT NOT NULL,
    capacity_type TEXT NOT NULL, zone TEXT NOT NULL, price REAL,
    PRIMARY KEY (decision, made, nodeclaim)
) STRICT;
CREATE INDEX decision_at ON decision (at);
CREATE INDEX decision_open ON decision (cluster) WHERE outcome IS NULL;
CREATE INDEX node_node ON node (node);
CREATE INDEX node_nodeclaim ON node (nodeclaim);
INSERT INTO decision VALUES ('old1', 'one', '2026-01-04T12:00:00.000Z', 'disrupt', 'Empty', 'empty', 'emptiness',
    0, 1, '["shop/web-1"]', 0.2, 0.0, NULL, NULL, NULL, '');
INSERT INTO node VALUES ('old1', 0, 'claim', 'node-old', 'default', 'm5.large', 'spot', 'a', 0.2);
"""


def refused(number, message="not empty: 2 pods run on it", method="emptiness"):
    until = NOON + timedelta(minutes=number)
    return Refused(method=method, code="NotEmpty", node=f"node-{number}", message=message, until=until)


def considered(refusals=2, **more):
    given = {
        "purchases": (
            PlannedPurchase(nodepool="default", instance_types=("m5.large", "m5.xlarge"), choices=7, price=0.1),
        ),
        "budgets": (BudgetUse(nodepool="default", used=1, limit=3), BudgetUse(nodepool="batch", used=2, limit=None)),
        "counts": (RefusedFor(method="emptiness", code="NotEmpty", nodes=refusals),),
        "refusals": tuple(map(refused, range(refusals))),
        **more,
    }
    return Considered(**given)


def noise(seed, length):
    """Text that cannot be compressed."""
    return "".join(random.Random(seed).choices(string.ascii_letters, k=length))  # noqa: S311 - no secret


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.db"


@pytest.fixture
def first(path):
    """A ledger as the first version of its file was."""
    with closing(sqlite3.connect(path)) as made:
        made.execute("PRAGMA journal_mode = WAL")
        made.executescript(f"BEGIN; {FIRST_SCHEMA} PRAGMA user_version = 1; COMMIT;")
    return path


def test_what_was_weighed_is_kept_whole_and_read_with_its_decision_alone(path):
    weighed = considered()
    with writing(path) as ledger:
        ledger.open(entry(considered=weighed))
        ledger.close("a1", ended())
    assert read_decision(path, "a1").considered == weighed
    assert read_decision(path, "a1").outcome == "done"
    assert asked(path)[0].considered is None


def test_where_nothing_was_weighed_there_is_nothing(path):
    with writing(path) as ledger:
        ledger.open(entry())
    assert read_decision(path, "a1").considered is None


def test_refusals_are_named_up_to_a_bound_and_their_words_too():
    long = considered(refusals=5000)
    wordy = Considered(refusals=(refused(0, "x" * 10_000),))
    kept = unpack(pack(long))
    assert (len(kept.refusals), kept.counts[0].nodes) == (MAX_REFUSALS, 5000)
    assert kept.refusals == long.refusals[:MAX_REFUSALS]
    (message,) = [each.message for each in unpack(pack(wordy)).refusals]
    assert (len(message), message[-1]) == (MAX_MESSAGE, "…")


def test_an_entry_is_small_however_much_was_refused():
    worst = Considered(refusals=tuple(refused(number, noise(number, 2 * MAX_MESSAGE)) for number in range(1000)))
    assert len(pack(worst)) < 100_000
    assert len(pack(considered(refusals=5000))) < 5_000


def test_what_cannot_be_understood_is_not_there_and_does_not_blow_up():
    assert unpack(b"nonsense") is None
    assert unpack(pack(considered())[:-20]) is None


def test_pruning_takes_what_was_weighed_along_and_the_file_stays_within_its_size(path):
    with closing(connect(path)) as connection:
        for number in range(400):
            weighed = Considered(refusals=(refused(1, noise(number, 300)),))
            at = NOON + timedelta(seconds=number)
            write_open(connection, "one", entry(f"{number:04}", at, considered=weighed))
        connection.commit()
        limit = used(connection) // 3
        prune(connection, NOON - timedelta(days=1), limit)
        assert used(connection) <= limit
        (decisions,) = connection.execute("SELECT count(*) FROM decision").fetchone()
        (weighings,) = connection.execute("SELECT count(*) FROM considered").fetchone()
    assert 10 < decisions == weighings < 400


def test_the_limit_of_the_ledger_holds_with_what_was_weighed(path, monkeypatch):
    monkeypatch.setattr("dovetail.observe.ledger._PRUNE_EVERY", 100)
    limit = 400_000
    with writing(path, keep=Retention(size=limit)) as ledger:
        for number in range(600):
            weighed = Considered(refusals=(refused(1, noise(number, 2000)),) * 5)
            ledger.open(entry(f"{number:05}", NOON + timedelta(seconds=number), considered=weighed))
    assert path.stat().st_size < 3 * limit
    assert asked(path)[0].id == "00599"


def test_a_ledger_of_the_first_version_is_read_as_it_is(first):
    before = first.read_bytes()
    assert [each.id for each in asked(first)] == ["old1"]
    assert read_decision(first, "old1").considered is None
    assert first.read_bytes() == before


def test_a_ledger_of_the_first_version_is_brought_up_to_date_and_loses_nothing(first):
    with writing(first, cluster="one") as ledger:
        ledger.open(entry("new1", considered=considered()))
        ledger.close("old1", ended())
    old, new = read_decision(first, "old1"), read_decision(first, "new1")
    assert (old.outcome, old.nodes[0].node, old.pod_names) == ("done", "node-old", ("shop/web-1",))
    assert new.considered == considered()
    with closing(sqlite3.connect(first)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (4,)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_two_that_bring_it_up_to_date_at_once_do_not_hinder_each_other(first):
    together, troubles = threading.Barrier(2), []

    def open_it():
        together.wait()
        try:
            connect(first).close()
        except sqlite3.Error as error:
            troubles.append(error)

    both = [threading.Thread(target=open_it) for _ in range(2)]
    for each in both:
        each.start()
    for each in both:
        each.join()
    assert troubles == []
    assert [each.id for each in asked(first)] == ["old1"]


def test_a_change_that_fails_half_way_leaves_the_first_version(first):
    with closing(sqlite3.connect(first)) as connection:
        connection.execute("CREATE TABLE considered (in_the_way INTEGER)")
        connection.commit()
    with pytest.raises(sqlite3.OperationalError):
        connect(first)
    with closing(sqlite3.connect(first)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)


def test_the_beginning_of_an_id_is_enough_if_no_other_has_it(path):
    with writing(path) as ledger:
        for identity in ("abc1", "abc2", "ab", "x%"):
            ledger.open(entry(identity))
    assert read_decision(path, "abc1").id == "abc1"
    assert read_decision(path, "ab").id == "ab"
    assert read_decision(path, "x").id == "x%"
    for odd, why in (("abc", "abc1, abc2"), ("%", "no decision"), ("", "no decision"), ("z", "-o wide")):
        with pytest.raises(NoSuchDecision, match=why):
            read_decision(path, odd)


@pytest.mark.parametrize(
    "odd",
    [
        {"cost_before": "much"},
        {"act": "remove"},
        {"considered": Considered(refusals=(refused(0, "\ud800"),))},
    ],
)
def test_an_entry_that_can_never_be_written_is_lost_alone_and_counted(path, odd):
    with writing(path) as ledger:
        ledger.open(entry("before"))
        ledger.open(entry("odd", **odd))
        ledger.open(entry("after"))
    assert sorted(each.id for each in asked(path)) == ["after", "before"]
    health = ledger.health()
    assert (health.written, health.lost, health.trouble) == (2, 1, "")
    assert read_decision(path, "after").considered is None
