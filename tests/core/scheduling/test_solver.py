"""Worked examples of where pods go; the laws and the agreement with the reference are in tests/properties."""

import pytest

from builders import NOON, ZONES, claim, instance_type, node, nodepool, pod, snapshot
from dovetail.core import wording
from dovetail.core.scheduling.solver import solve
from dovetail.model.command import RECORD_ANNOTATION, CommandRecord, write_record
from dovetail.model.kube_object import Key
from dovetail.model.labels import CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, ZONE
from dovetail.model.reason import Reason
from dovetail.model.snapshot import ClusterNode

WEB = {"labels": {"app": "web"}}
SELECTS_WEB = {"matchLabels": {"app": "web"}}


def spread(key=ZONE, **fields):
    return {
        "topologySpreadConstraints": [
            {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": SELECTS_WEB}
            | fields
        ]
    }


def far(key=HOSTNAME, how="requiredDuringSchedulingIgnoredDuringExecution"):
    term = {"topologyKey": key, "labelSelector": SELECTS_WEB}
    preferred = how.startswith("preferred")
    return {"affinity": {"podAntiAffinity": {how: [{"weight": 1, "podAffinityTerm": term} if preferred else term]}}}


def near(key=ZONE):
    term = {"topologyKey": key, "labelSelector": SELECTS_WEB}
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def web(name, **fields):
    return pod(name, metadata={"name": name, "uid": f"uid-{name}", **WEB}, **fields)


def node_row(name, zone="zone-a", *pods, **fields):
    return ClusterNode(node(name, labels={ZONE: zone}, **fields), None, pods)


def where(placement, name):
    return placement.node_by_pod.get(Key("default", name))


def test_a_node_with_less_than_the_request_but_enough_for_its_size_class_takes_no_pod():
    small = node_row("small", cpu="1030m")
    assert not solve(snapshot(nodes=[small]), [pod("new", "1050m")], []).node_by_pod
    large = node_row("zlarge", cpu="1050m")
    assert where(solve(snapshot(nodes=[small, large]), [pod("new", "1050m")], []), "new") == "zlarge"


def test_a_draft_that_is_too_small_for_one_pod_takes_a_smaller_one_with_the_same_constraints():
    pods = [pod(name, cpu) for name, cpu in (("a", "40"), ("b", "40"), ("c", "30"), ("d", "20"))]
    placement = solve(snapshot(pools=[nodepool()], types=[instance_type("m.huge", "64", "256Gi")]), pods, [nodepool()])
    assert sorted(sorted(each.name for each in draft.pods) for draft in placement.drafts) == [["a", "d"], ["b"], ["c"]]


def test_spread_takes_the_emptier_zone():
    existing_nodes = [node_row("a", "zone-a", web("old", on="a")), node_row("b", "zone-b")]
    assert where(solve(snapshot(nodes=existing_nodes), [web("new", spec=spread())], []), "new") == "b"


def test_min_domains_count_as_empty_until_there_are_enough():
    """Two zones known, three wanted: at most maxSkew in each."""
    existing_nodes = [node_row("a", "zone-a", web("one", on="a")), node_row("b", "zone-b", web("two", on="b"))]
    answer = solve(snapshot(nodes=existing_nodes), [web("new", spec=spread(minDomains=3))], [])
    assert Key("default", "new") in answer.refusals


def test_hostname_spread_never_puts_more_than_max_skew_on_a_node():
    """A node without any is always possible. The scheduler would take the third pod here: both nodes have one."""
    existing_nodes = [node_row("a", "zone-a", web("one", on="a")), node_row("b", "zone-a", web("two", on="b"))]
    new = [web("new", spec=spread(HOSTNAME))]
    found = solve(snapshot(nodes=existing_nodes, pools=[nodepool()]), new, [nodepool()])
    assert [len(draft.pods) for draft in found.drafts] == [1]
    assert (
        where(solve(snapshot(nodes=existing_nodes), [web("new", spec=spread(HOSTNAME, maxSkew=2))], []), "new") == "a"
    )


@pytest.mark.parametrize(("skew", "pods"), [(1, [1] * 6), (3, [3, 3]), (4, [4, 2])])
def test_hostname_spread_on_an_empty_cluster_gets_as_many_nodes_as_it_needs(skew, pods):
    six = [web(f"w{n}", cpu="10m", spec=spread(HOSTNAME, maxSkew=skew)) for n in range(6)]
    assert [len(draft.pods) for draft in solve(snapshot(pools=[nodepool()]), six, [nodepool()]).drafts] == pods


def test_a_pod_that_its_own_hostname_spread_does_not_select_may_join_a_full_node():
    """kube-scheduler adds nothing for it: a node with maxSkew pods of the others still does."""
    existing_nodes = [node_row("a", "zone-a", web("one", on="a"))]
    stranger = pod("stranger", spec=spread(HOSTNAME))
    assert where(solve(snapshot(nodes=existing_nodes), [stranger], []), "stranger") == "a"


def test_drafts_are_spread_over_zones():
    pods = [web(f"w{n}", spec=spread()) for n in range(4)]
    answer = solve(snapshot(pools=[nodepool()]), pods, [nodepool()])
    zones = [draft.requirements.labels()[ZONE] for draft in answer.drafts for _ in draft.pods]
    assert sorted(zones) == ["zone-a", "zone-a", "zone-b", "zone-b"]


def test_pods_with_anti_affinity_get_a_node_each():
    pods = [web(f"w{n}", spec=far()) for n in range(3)]
    assert [len(draft.pods) for draft in solve(snapshot(pools=[nodepool()]), pods, [nodepool()]).drafts] == [1, 1, 1]


def test_anti_affinity_of_placed_pods_is_respected():
    existing_nodes = [node_row("a", "zone-a", web("hermit", on="a", spec=far()))]
    answer = solve(snapshot(nodes=existing_nodes), [web("plain")], [])
    assert "didn't match pod anti-affinity rules" in wording.message(answer.refusals[Key("default", "plain")])


def test_the_first_pod_of_an_affinity_group_runs_anywhere_and_others_follow():
    pods = [web(f"w{n}", cpu="3", spec=near()) for n in range(3)]
    existing_nodes = [node_row(f"{zone}-{n}", zone) for zone in ZONES for n in range(2)]
    answer = solve(snapshot(nodes=existing_nodes, pools=[nodepool()]), pods, [nodepool()])
    assert sorted(answer.node_by_pod.values()) == ["zone-a-0", "zone-a-1"]
    assert [draft.requirements.labels()[ZONE] for draft in answer.drafts] == ["zone-a"]


def test_preferences_are_kept_if_a_node_can_be_launched_and_dropped_otherwise():
    wish = far(how="preferredDuringSchedulingIgnoredDuringExecution")
    pods = [web(f"w{n}", spec=wish) for n in range(3)]
    assert len(solve(snapshot(pools=[nodepool()]), pods, [nodepool()]).drafts) == 3
    assert {*solve(snapshot(nodes=[node_row("a")]), pods, []).node_by_pod.values()} == {"a"}
    ignored = solve(snapshot(pools=[nodepool()]), pods, [nodepool()], respect_preferences=False)
    assert len(ignored.drafts) == 1


def test_soft_taints_are_the_last_thing_to_be_tolerated():
    shunned = node_row("a", taints=[{"key": "old", "effect": "PreferNoSchedule"}])
    assert where(solve(snapshot(nodes=[shunned, node_row("b")]), [pod()], []), "web") == "b"
    assert where(solve(snapshot(nodes=[shunned]), [pod()], []), "web") == "a"


TOLERANT = {"tolerations": [{"operator": "Exists"}]}


def removed_by_a_command(name, *pods):
    record = CommandRecord(
        id="c", reason=Reason.DRIFTED, started_at=NOON, candidates=1, replacements=0, method="drift", committed=False
    )
    owner = claim(name, metadata={"annotations": {RECORD_ANNOTATION: write_record(record)}})
    return ClusterNode(node(name), owner, pods)


def test_a_node_that_a_command_removes_takes_no_pod_even_if_the_pod_tolerates_its_taint():
    nodes = [removed_by_a_command("a"), node_row("b", cpu="1")]
    found = solve(snapshot(nodes=nodes), [pod("first", spec=TOLERANT), pod("second", spec=TOLERANT)], [])
    assert (where(found, "first"), where(found, "second")) == ("b", None)
    refusal = wording.message(found.refusals[Key("default", "second")])
    assert "1 Insufficient cpu, 1 node(s) were being disrupted" in refusal


def test_a_pod_of_a_node_that_a_command_removes_is_not_placed_on_that_node():
    """Without the displaced pod the node looks as if it had room for it."""
    displaced = pod("displaced", on="a", spec=TOLERANT)
    found = solve(snapshot(nodes=[removed_by_a_command("a", displaced)], pools=[nodepool()]), [displaced], [nodepool()])
    assert [len(draft.pods) for draft in found.drafts] == [1]


def test_higher_priority_is_placed_first():
    small = node_row("a", cpu="1")
    pods = [pod("big", cpu="1"), pod("vip", cpu="500m", spec={"priority": 1000})]
    answer = solve(snapshot(nodes=[small]), pods, [])
    assert where(answer, "vip") == "a"
    assert Key("default", "big") in answer.refusals


def test_min_values_keep_a_claim_flexible():
    wanted = [{"key": INSTANCE_TYPE, "operator": "Exists", "minValues": 2}]
    pool = nodepool(template={"requirements": wanted})
    answer = solve(snapshot(pools=[pool]), [pod("fits-two", cpu="4"), pod("fits-one", cpu="8")], [pool])
    assert [draft.type_names for draft in answer.drafts] == [{"m.large", "m.huge"}]
    assert "minValues" in wording.message(answer.refusals[Key("default", "fits-one")])


def test_a_cordoned_node_takes_no_pods():
    cordoned = ClusterNode(node("a", spec={"unschedulable": True}), None)
    answer = solve(snapshot(nodes=[cordoned]), [pod()], [])
    assert "1 node(s) were unschedulable" in wording.message(answer.refusals[Key("default", "web")])


@pytest.mark.parametrize(("operator", "there"), [("In", "two"), ("NotIn", "one")])
def test_a_node_can_be_selected_by_name(operator, there):
    field = {"key": "metadata.name", "operator": operator, "values": ["two"]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    spec = {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}
    existing_nodes = [node_row("one"), node_row("two")]
    assert (
        where(solve(snapshot(nodes=existing_nodes, pools=[nodepool()]), [pod(spec=spec)], [nodepool()]), "web") == there
    )


def test_resources_are_kept_for_pods_that_the_scheduler_nominated():
    preempting = pod("vip", cpu="3", status={"phase": "Pending", "nominatedNodeName": "a"})
    answer = solve(snapshot([preempting], nodes=[node_row("a")]), [pod("late", cpu="2")], [])
    assert Key("default", "late") in answer.refusals


def test_an_unlaunched_claim_takes_only_pods_that_match_whatever_it_becomes():
    open_claim = claim(
        spec={
            "requirements": [{"key": CAPACITY_TYPE, "operator": "In", "values": ["spot", "on-demand"]}],
            "resources": {"requests": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
        }
    )
    waiting = ClusterNode(None, open_claim)
    picky = pod("picky", spec={"nodeSelector": {CAPACITY_TYPE: "spot"}})
    answer = solve(snapshot(nodes=[waiting]), [picky, pod("easy")], [])
    assert where(answer, "easy") == "default-1"
    assert Key("default", "picky") in answer.refusals


def test_the_closest_type_is_named_when_none_is_large_enough():
    answer = solve(snapshot(pools=[nodepool()]), [pod(cpu="20")], [nodepool()])
    assert "closest: m.huge is short of 4000m cpu" in wording.message(answer.refusals[Key("default", "web")])
