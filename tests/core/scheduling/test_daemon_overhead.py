"""What a DaemonSet takes of a node: its newest live pod says it, else its template with limits as requests."""

from dataclasses import replace
from datetime import timedelta

from acceptance.fleet import ON_DEMAND, free, worker
from builders import LARGE, NOON, build, pod, snapshot, stamped
from dovetail.core.disruption.planner import Planner, plan_disruption
from dovetail.core.scheduling.daemon_overhead import read_daemons
from dovetail.model.kinds import DAEMON_SET

EVERYWHERE = [{"operator": "Exists"}]


def daemon_set(requested, name="agent", **spec):
    template = {"containers": [{"name": "main", "resources": requested}], "tolerations": EVERYWHERE, **spec}
    metadata = {"name": name, "namespace": "kube-system", "uid": f"uid-{name}"}
    return build(DAEMON_SET, {"metadata": metadata, "spec": {"template": {"spec": template}}})


def daemon_pod(name, cpu, on="", age=timedelta(), of="agent", **fields):
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": of, "uid": f"uid-{of}", "controller": True}
    created = {"creationTimestamp": stamped(NOON - age), "namespace": "kube-system", "ownerReferences": [owner]}
    pinned = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [on or "a"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [pinned]}}}
    spec = {"affinity": affinity, "tolerations": EVERYWHERE, **fields.pop("spec", {})}
    metadata = {**created, **fields.pop("metadata", {})}
    return pod(name, cpu, on=on, spec=spec, metadata=metadata, **fields)


def cpu_of(found):
    (daemon,) = read_daemons(found).each
    return str(daemon.requests["cpu"])


def test_without_a_pod_limits_of_the_template_count_as_requests():
    assert cpu_of(snapshot(daemon_sets=[daemon_set({"limits": {"cpu": "1"}})])) == "1"
    assert cpu_of(snapshot(daemon_sets=[daemon_set({"limits": {"cpu": "1"}, "requests": {"cpu": "2m"}})])) == "2m"


def test_limits_of_init_containers_and_of_the_whole_pod_count_as_requests():
    init = {"initContainers": [{"name": "prepare", "resources": {"limits": {"cpu": "3"}}}]}
    assert cpu_of(snapshot(daemon_sets=[daemon_set({"limits": {"cpu": "1"}}, **init)])) == "3"
    whole = {"resources": {"limits": {"cpu": "2"}}}
    assert cpu_of(snapshot(daemon_sets=[daemon_set({}, **whole)])) == "2"
    assert cpu_of(snapshot(daemon_sets=[daemon_set({"limits": {"cpu": "1"}}, **whole)])) == "1"


def test_the_newest_live_pod_wins_over_the_template():
    old, new = daemon_pod("old", "300m", on="a", age=timedelta(hours=1)), daemon_pod("new", "700m", on="b")
    nodes = [worker("a", old), worker("b", new)]
    assert cpu_of(snapshot(nodes=nodes, daemon_sets=[daemon_set({})])) == "700m"
    assert cpu_of(snapshot(nodes=nodes[:1], daemon_sets=[daemon_set({})])) == "300m"


def test_a_daemon_pod_that_found_no_room_on_its_node_shows_the_request_too():
    waiting = daemon_pod("waiting", "900m")
    assert cpu_of(snapshot([waiting], daemon_sets=[daemon_set({"requests": {"cpu": "1m"}})])) == "900m"


def test_pods_that_ended_or_leave_or_belong_to_another_do_not_count():
    ended = daemon_pod("ended", "2", on="a", status={"phase": "Failed"})
    leaving = daemon_pod("leaving", "3", on="a", metadata={"deletionTimestamp": stamped(NOON)})
    other = daemon_pod("other", "4", on="a", of="elsewhere")
    found = snapshot(nodes=[worker("a", ended, leaving, other)], daemon_sets=[daemon_set({"requests": {"cpu": "5m"}})])
    assert cpu_of(found) == "5m"


def test_the_affinity_that_pins_a_pod_to_its_node_does_not_keep_it_from_others():
    found = snapshot(nodes=[worker("a", daemon_pod("new", "1", on="a"))], daemon_sets=[daemon_set({})])
    (daemon,) = read_daemons(found).each
    assert [str(each) for each in daemon.alternatives] == ["anywhere"]


def test_a_plan_after_others_sees_that_daemons_grew():
    """With daemons of 3 CPUs no node has room for the pod of another, so nothing can be consolidated any more."""
    planner, agents = Planner(), [daemon_set({"requests": {"cpu": "100m"}})]
    small = [worker(name, pod(f"web-{name}", "1", on=name), daemon_pod(f"d-{name}", "100m", on=name)) for name in "ab"]
    grown = daemon_pod("d-b", "3", on="b", metadata={"creationTimestamp": stamped(NOON + timedelta(hours=1))})
    before = snapshot(nodes=small, pools=[free(template=ON_DEMAND)], types=(LARGE,), daemon_sets=agents)
    after = replace(before, nodes=(small[0], replace(small[1], pods=(small[1].pods[0], grown))))
    assert planner.plan(before).commands
    assert planner.plan(after).commands == plan_disruption(after).commands == ()
