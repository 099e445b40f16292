"""The progress of a command: wait, delete or roll back; its text and its saving."""

from datetime import timedelta

import msgspec
import pytest

from acceptance.fleet import ON_DEMAND, cluster, free, running, worker
from builders import HUGE, LARGE, NOON, SMALL, claim
from dovetail.core.disruption.command import Command, Decision
from dovetail.core.disruption.command_progress import (
    OVERTAKEN,
    NextStep,
    abandoned,
    after_failure,
    judge,
    running_commands,
    timeout,
)
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.disruption.planner import plan_disruption
from dovetail.model.command import RECORD_ANNOTATION, REPLACES_ANNOTATION, CommandRecord, CommandState, write_record
from dovetail.model.reason import Reason

MINUTE = timedelta(minutes=1)


def state(replacements, expected=None, deleting=False, number=1):
    expected = len(replacements) if expected is None else expected
    record = CommandRecord(id="c", reason=Reason.DRIFTED, started_at=NOON, candidates=number, replacements=expected)
    metadata = {"deletionTimestamp": "2026-01-05T12:00:00Z"} if deleting else {}
    candidates = tuple(claim(f"old-{each}", metadata={"name": f"old-{each}", **metadata}) for each in range(number))
    return CommandState(record, candidates, tuple(replacements))


def new(name="new", initialized=True, registered=True):
    conditions = {
        "Registered": "True" if registered else "Unknown",
        "Initialized": "True" if initialized else "Unknown",
    }
    return claim(name, conditions=conditions)


def verdict(found, *, planned=False, after=MINUTE):
    return judge(found, planned=planned, now=NOON + after).next


def test_it_waits_while_a_replacement_is_not_initialised():
    assert verdict(state([new(initialized=False)])) is NextStep.WAIT
    assert verdict(state([new(initialized=False)]), after=10 * MINUTE) is NextStep.WAIT, "no error before the timeout"


def test_a_replacement_that_this_process_still_has_to_create_is_waited_for():
    assert verdict(state([], expected=1), planned=True) is NextStep.WAIT


def test_eleven_minutes_without_progress_are_too_long():
    assert verdict(state([new(initialized=False)]), after=11 * MINUTE) is NextStep.ROLL_BACK


def test_a_replacement_that_is_gone_is_the_end_of_it():
    assert verdict(state([], expected=1)) is NextStep.ROLL_BACK
    assert verdict(state([new()], expected=2)) is NextStep.ROLL_BACK


@pytest.mark.parametrize("number", [1, 2])
def test_it_lets_go_when_all_replacements_are_initialised(number):
    ready = [new(f"new-{each}") for each in range(number)]
    assert verdict(state(ready)) is NextStep.DELETE
    assert verdict(state([*ready, new("late", initialized=False)])) is NextStep.WAIT


def test_replacements_that_came_in_the_last_moment_still_count():
    assert verdict(state([new()]), after=11 * MINUTE) is NextStep.DELETE


def test_what_needs_no_replacement_lets_go_at_once():
    assert verdict(state([]), after=timedelta()) is NextStep.DELETE


def test_what_needs_no_replacement_and_was_begun_by_a_process_that_died_is_taken_back():
    alone = state([])
    assert judge(alone, planned=False, now=NOON, ours=False).next is NextStep.ROLL_BACK
    committed = alone._replace(record=msgspec.structs.replace(alone.record, committed=True))
    assert judge(committed, planned=False, now=NOON, ours=False).next is NextStep.DELETE
    assert judge(state([new()]), planned=False, now=NOON, ours=False).next is NextStep.DELETE


def test_it_is_done_when_every_candidate_is_going():
    assert verdict(state([], deleting=True)) is NextStep.DONE


def test_nodes_deleted_before_the_command_committed_were_overtaken():
    going = state([], deleting=True)
    committed = going._replace(record=msgspec.structs.replace(going.record, committed=True))
    assert judge(going, planned=False, now=NOON).why == OVERTAKEN
    assert judge(committed, planned=False, now=NOON).why == ""


def test_commands_are_found_on_their_claims_and_are_independent():
    claims = []
    for each in ("one", "two"):
        record = CommandRecord(id=each, reason=Reason.EMPTY, started_at=NOON, candidates=1, replacements=1)
        claims.append(
            claim(
                f"old-{each}",
                metadata={"name": f"old-{each}", "annotations": {RECORD_ANNOTATION: write_record(record)}},
            )
        )
        claims.append(
            claim(f"new-{each}", metadata={"name": f"new-{each}", "annotations": {REPLACES_ANNOTATION: each}})
        )
    found = running_commands(claims)
    assert {
        key: ([c.name for c in each.candidates], [c.name for c in each.replacements]) for key, each in found.items()
    } == {
        "one": (["old-one"], ["new-one"]),
        "two": (["old-two"], ["new-two"]),
    }


@pytest.mark.parametrize(
    ("candidates", "expected"),
    [
        (100, timedelta(minutes=10)),
        (4000, timedelta(minutes=10)),
        (10000, timedelta(minutes=13, seconds=20)),
        (40000, timedelta(minutes=53, seconds=20)),
        (80000, timedelta(hours=1)),
        (10**6, timedelta(hours=1)),
    ],
)
def test_the_timeout_grows_with_the_command(candidates, expected):
    assert timeout(candidates) == expected


def test_replacements_that_never_became_nodes_are_deleted_and_others_stay():
    found = state([new("node"), new("nothing", initialized=False, registered=False), new("late", initialized=False)])
    assert [each.name for each in abandoned(found)] == ["nothing"]


def test_failures_double_the_wait_up_to_ten_minutes_and_count_once_inside_it():
    waits, before, now = [], None, NOON
    for _ in range(6):
        before = after_failure(before, now)
        assert after_failure(before, now) is before, "still inside the wait"
        waits.append((before.until - now) / MINUTE)
        now = before.until
    assert waits == [1, 2, 4, 8, 10, 10]


# -- text and savings


def found(*nodes, types=(SMALL, LARGE, HUGE)):
    return cluster(*nodes, pools=[free(template=ON_DEMAND)], types=types)


def test_a_command_as_text():
    one = plan_disruption(found(worker("a"))).commands[0]
    many = plan_disruption(found(worker("a"), worker("b"))).commands[0]
    replaced = plan_disruption(found(worker("a", running("x", "a")))).commands[0]
    assert str(one) == "delete: [a] (savings: $1.00)"
    assert str(many) == "delete: [a, b] (savings: $2.00)"
    assert str(replaced) == "replace: [a] -> [1 replacement] (savings: $0.50)"


def test_several_replacements_are_summed():
    draft = plan_disruption(found(worker("a", running("x", "a")))).commands[0].replacements[0]
    candidates, _ = PassContext(found(worker("a", type_="m.huge"))).candidates(eventual=False)
    command = Command("drift", Reason.DRIFTED, tuple(candidates), (draft, draft))
    assert command.saving == pytest.approx(4.0 - 2 * 0.5)
    assert command.decision is Decision.REPLACE
    assert str(command) == "replace: [a] -> [2 replacements] (savings: $3.00)"


def test_pods_are_counted_over_all_candidates():
    nodes = [worker(name, running(f"p{name}", name)) for name in "abcd"]
    (command,) = plan_disruption(found(*nodes, types=(LARGE,))).commands
    assert len(command.candidates) == 3
    assert command.pods == 3


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ((worker("a"),), ("emptiness", "Empty", "delete")),
        ((worker("a"), worker("b")), ("emptiness", "Empty", "delete")),
        (
            (worker("a", running("x", "a")), worker("b", running("y", "b")), worker("c", running("z", "c"))),
            ("multi-node", "Underutilized", "delete"),
        ),
        ((worker("a", running("x", "a")),), ("single-node", "Underutilized", "replace")),
    ],
)
def test_decision_reason_and_kind_are_counted_separately(nodes, expected):
    (command,) = plan_disruption(found(*nodes, types=(LARGE,) if len(nodes) == 3 else (SMALL, LARGE))).commands
    assert (command.method, command.reason, command.decision) == expected


def test_a_record_survives_being_written_and_read():
    record = CommandRecord(id="c", reason=Reason.DRIFTED, started_at=NOON, candidates=1, replacements=2)
    assert msgspec.json.decode(write_record(record), type=CommandRecord) == record
