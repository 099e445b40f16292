"""When nodes may be launched again for pods that earlier launches did not help: what counts, once, and for how long."""

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acceptance.fleet import cluster, drifted, free, owned, said, worker
from builders import LARGE, NOON, nodepool, pod, snapshot
from dovetail.core import wording
from dovetail.core.provisioning.launch_backoff import (
    BACKOFF_ANNOTATION,
    LAUNCHED_FOR,
    LAUNCHED_UNDER,
    MAX_RECORDED_KINDS,
    WAITS,
    FailedLaunch,
    LaunchFailureCause,
    after_failure,
    annotation,
    current_state,
    in_force,
    pod_kind,
    read_backoffs,
    record_of,
)
from dovetail.core.provisioning.plan import plan_provisioning

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
EARLIER = {"creationTimestamp": (NOON - HOUR).strftime("%Y-%m-%dT%H:%M:%SZ")}
QUARANTINE = [{"key": "quarantine", "effect": "NoSchedule"}]
WAITING = pod("web", cpu="3", metadata=EARLIER)
KIND = pod_kind(WAITING)
UNDER = {LAUNCHED_UNDER: current_state(nodepool())}


def annotated(value, **annotations):
    metadata = msgspec.structs.replace(value.metadata, annotations={**value.metadata.annotations, **annotations})
    return msgspec.structs.replace(value, metadata=metadata)


def recorded(pool, failure, at=NOON):
    """The pool once a failure is written down."""
    look = replace(snapshot(pools=[pool]), at=at)
    return all_recorded(pool, [failure], look)


def all_recorded(pool, failures, look):
    record = record_of(pool, look)
    after = {each.kind: after_failure(pool, each, record, look.at) for each in failures}
    return annotated(pool, **{BACKOFF_ANNOTATION: annotation({**record, **after}, look.at)})


def launched(name, *pods, known=0, pool=None, age=MINUTE, **fields):
    """A node that was launched for the waiting pod when so many failures were known."""
    marks = {LAUNCHED_FOR: f"{KIND}:{known}", LAUNCHED_UNDER: current_state(pool or nodepool())}
    return worker(name, *pods, age=age, claim={"metadata": {"annotations": marks}}, **fields)


def failed(known=0, cause=LaunchFailureCause.NOT_FITTING):
    return FailedLaunch(launched("n", known=known).claim, KIND, cause, "it did not help")


def test_pods_that_ask_for_the_same_are_of_one_kind_whatever_they_are_called():
    other = {"name": "x", "uid": "other", "labels": {"pod-template-hash": "1"}}
    assert pod_kind(pod("web", cpu="3", metadata=other)) == KIND
    assert pod_kind(pod("web", cpu="3000m")) == KIND
    assert pod_kind(pod("web", cpu="3", on="somewhere")) == KIND
    assert pod_kind(pod("web", memory="24Ti")) != KIND  # whatever the size


@pytest.mark.parametrize(
    "fields",
    [
        {"cpu": "2"},
        {"metadata": {"namespace": "other"}},
        {"spec": {"tolerations": [{"operator": "Exists"}]}},
        {"spec": {"nodeSelector": {"disk": "fast"}}},
    ],
)
def test_pods_that_ask_for_something_else_are_of_another(fields):
    assert pod_kind(pod("web", **{"cpu": "3", **fields})) != KIND


def replica(number):
    """A replica of a StatefulSet, with a volume of its own, which may be in a zone of its own."""
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": f"data-db-{number}"}}
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "db", "controller": True}
    metadata = {**EARLIER, "ownerReferences": [owner]}
    return pod(f"db-{number}", cpu="3", metadata=metadata, spec={"volumes": [volume]})


def test_replicas_of_a_stateful_set_do_not_wait_for_each_other():
    assert pod_kind(replica(0)) == pod_kind(replica(0))
    failure = FailedLaunch(
        launched("n").claim, pod_kind(replica(0)), LaunchFailureCause.NOT_FITTING, "no capacity in its zone"
    )
    pool = recorded(nodepool(), failure)
    assert (pool.name, pod_kind(replica(0))) in in_force(snapshot(pools=[pool]))
    assert (pool.name, pod_kind(replica(1))) not in in_force(snapshot(pools=[pool]))


def test_pods_with_a_new_volume_each_time_are_of_one_kind():
    """Otherwise replacing the pod would reset the wait."""
    volumes = [[{"name": "work", "persistentVolumeClaim": {"claimName": name}}] for name in ("run-1", "run-2")]
    first, second = (pod("run", spec={"volumes": each}) for each in volumes)
    assert pod_kind(first) == pod_kind(second)


def test_a_node_that_cannot_take_the_pod_it_was_launched_for_holds_the_next_launch_back():
    plan = plan_provisioning(snapshot([WAITING], [launched("n", taints=QUARANTINE)], [nodepool()]))
    assert plan.launches == ()
    [failure], [refusal] = plan.failures, plan.refusals
    assert (failure.kind, failure.cause) == (KIND, LaunchFailureCause.NOT_FITTING)
    assert (refusal.code, refusal.until) == ("LaunchBackoff", NOON + MINUTE)
    assert "node n was launched for it and cannot run it" in wording.message(refusal)
    assert "quarantine" in wording.message(refusal)


def test_daemons_that_take_more_than_expected_are_no_pods_of_others():
    daemon = owned("agent", "n", "DaemonSet", cpu="3", spec={"tolerations": [{"operator": "Exists"}]})
    plan = plan_provisioning(snapshot([WAITING], [launched("n", daemon)], [nodepool()]))
    assert (plan.launches, [each.cause for each in plan.failures]) == ((), [LaunchFailureCause.NOT_FITTING])
    assert "Insufficient cpu" in wording.message(plan.refusals[0])


def test_a_recorded_backoff_ends_at_its_time():
    pool = recorded(nodepool(), failed())
    nodes = [launched("n", taints=QUARANTINE)]
    look = snapshot([WAITING], nodes, [pool])
    assert not plan_provisioning(look).launches
    assert plan_provisioning(look).failures == ()  # counted before
    later = plan_provisioning(replace(look, at=NOON + MINUTE))
    assert len(later.launches) == 1
    assert later.launches[0].claim.metadata.annotations[LAUNCHED_FOR] == f"{KIND}:1"


def test_two_launches_crowded_out_by_other_pods_do_not_wait():
    pool, known = nodepool(), 0
    for launches in (1, 1, 0):
        full = launched("n", pod("other", cpu="3", memory="2Gi", on="n"), known=known)
        plan = plan_provisioning(snapshot([WAITING], [full], [pool]))
        assert [each.cause for each in plan.failures] == [LaunchFailureCause.CROWDED_OUT]
        assert len(plan.launches) == launches
        pool, known = recorded(pool, plan.failures[0]), known + 1


def test_a_node_that_served_its_pods_and_was_cordoned_since_is_no_failure():
    young = pod("web", cpu="3")
    old = launched("n", age=HOUR, taints=QUARANTINE, status={"lastPodEventTime": EARLIER["creationTimestamp"]})
    plan = plan_provisioning(snapshot([young], [old], [nodepool()]))
    assert (len(plan.launches), plan.failures) == (1, ())


def test_a_node_that_has_taken_such_a_pod_is_no_failure():
    full = launched("n", pod("first", cpu="3", on="n"))
    plan = plan_provisioning(snapshot([WAITING], [full], [nodepool()]))
    assert (len(plan.launches), plan.failures) == (1, ())


@pytest.mark.parametrize("age", [MINUTE, timedelta()], ids=["launched together", "launched later"])
def test_a_node_that_took_none_is_no_failure_once_another_took_one(age):
    nodes = [launched("n", taints=QUARANTINE), worker("m", pod("first", cpu="3", on="m"), age=age)]
    plan = plan_provisioning(snapshot([WAITING], nodes, [nodepool()]))
    assert (len(plan.launches), plan.failures) == (1, ())


def test_a_node_that_took_none_is_a_failure_though_an_earlier_one_took_one():
    nodes = [launched("n", taints=QUARANTINE), worker("m", pod("first", cpu="3", on="m"), age=2 * MINUTE)]
    plan = plan_provisioning(snapshot([WAITING], nodes, [nodepool()]))
    assert (len(plan.launches), len(plan.failures)) == (0, 1)


def test_pods_that_are_about_to_end_are_pods_of_others():
    ending = {"deletionTimestamp": NOON.strftime("%Y-%m-%dT%H:%M:%SZ")}
    full = launched("n", pod("other", cpu="3", memory="2Gi", on="n", metadata=ending))
    plan = plan_provisioning(snapshot([WAITING], [full], [nodepool()]))
    assert (len(plan.launches), [each.cause for each in plan.failures]) == (1, [LaunchFailureCause.CROWDED_OUT])


def test_a_node_of_the_pool_as_it_was_before_is_no_failure():
    changed = msgspec.structs.replace(nodepool().metadata, generation=2)
    pool = msgspec.structs.replace(nodepool(), metadata=changed)
    plan = plan_provisioning(snapshot([WAITING], [launched("n", taints=QUARANTINE)], [pool]))
    assert (len(plan.launches), plan.failures) == (1, ())


def test_a_pod_that_runs_on_a_later_node_ends_the_wait():
    pool = recorded(nodepool(), failed())
    assert in_force(snapshot(pools=[pool]))
    later = launched("later", pod("first", cpu="3", on="later"), age=timedelta())
    assert not in_force(snapshot(nodes=[later], pools=[pool]))
    before = launched("before", pod("first", cpu="3", on="before"), age=HOUR)
    assert in_force(snapshot(nodes=[before], pools=[pool]))


@pytest.mark.parametrize("age", [MINUTE, MINUTE / 2])
def test_a_node_beside_one_that_took_such_a_pod_is_no_failure(age):
    """It would be none on record, so every plan would count it anew and wait for it without end."""
    helped = launched("m", pod("other", cpu="3", on="m"), age=age)
    plan = plan_provisioning(snapshot([WAITING], [launched("n", taints=QUARANTINE), helped], [nodepool()]))
    assert (plan.failures, len(plan.launches)) == ((), 1)
    earlier = launched("m", pod("other", cpu="3", on="m"), age=2 * MINUTE)
    plan = plan_provisioning(snapshot([WAITING], [launched("n", taints=QUARANTINE), earlier], [nodepool()]))
    assert (len(plan.failures), plan.launches) == (1, ())


def test_claims_that_were_launched_together_and_fail_together_count_once():
    pool = nodepool()
    for _ in range(30):
        pool = recorded(pool, failed(cause=LaunchFailureCause.LAUNCH_FAILED))
    assert read_backoffs(pool)[KIND].failures == 1
    assert read_backoffs(recorded(pool, failed(known=1)))[KIND].failures == 2


def test_more_kinds_than_a_record_holds_wait_together_and_not_longer():
    pods = [pod(f"web-{n}", cpu=f"{n + 1}m", metadata=EARLIER) for n in range(MAX_RECORDED_KINDS + 20)]
    kinds = {LAUNCHED_FOR: ",".join(f"{pod_kind(each)}:0" for each in pods)}
    bad = worker("n", taints=QUARANTINE, claim={"metadata": {"annotations": {**kinds, **UNDER}}})
    look = snapshot(pods, [bad], [nodepool()])
    failures = plan_provisioning(look).failures
    assert len(failures) == len(pods)
    pool = all_recorded(nodepool(), failures, look)
    assert len(pool.metadata.annotations[BACKOFF_ANNOTATION]) < 200_000
    for seconds, waiting in ((30, len(pods)), (60, 0)):
        look = replace(snapshot(pods, [bad], [pool]), at=NOON + timedelta(seconds=seconds))
        plan = plan_provisioning(look)
        assert len(plan.refusals) == waiting
        again = all_recorded(pool, plan.failures, look)
        assert again == pool, "nothing new is written"


@pytest.mark.parametrize("written", ["", "nonsense", "[]", '{"a": 1}', '{"a": {"failures": "many"}}'])
def test_a_record_that_cannot_be_read_is_none(written):
    assert read_backoffs(annotated(nodepool(), **{BACKOFF_ANNOTATION: written})) == {}


def test_nothing_is_launched_to_replace_a_node_whose_pods_launches_do_not_help():
    running = pod("web", cpu="3", on="a")
    pool = recorded(free(consolidateAfter="Never"), failed())
    refusal = said(cluster(drifted("a", running), pools=[pool], types=(LARGE,)), "drift", "a")
    assert (refusal.code, refusal.until) == ("LaunchBackoff", NOON + MINUTE)


@given(st.sampled_from(LaunchFailureCause), st.integers(1, 60))
def test_waits_grow_up_to_a_limit(cause, failures):
    wait = WAITS[cause]
    assert timedelta() <= wait.after(failures) <= wait.after(failures + 1) <= wait.longest
    assert wait.after(60) == wait.longest


@given(st.lists(st.tuples(st.sampled_from(LaunchFailureCause), st.integers(0, 5), st.integers(0, 4000)), max_size=12))
def test_a_failure_that_is_noted_twice_counts_once(events):
    pool, at = nodepool(), NOON
    for cause, known, seconds in events:
        at += timedelta(seconds=seconds)
        pool = recorded(pool, failed(min(known, _failures(pool)), cause), at)
        again = recorded(pool, failed(min(known, _failures(pool) - 1), cause), at)
        assert read_backoffs(again) == read_backoffs(pool)


def _failures(pool):
    found = read_backoffs(pool).get(KIND)
    return found.failures if found is not None else 0
