"""What is launched for pods that wait."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import HUGE, LARGE, SMALL, claim, daemon_set, node, nodepool, pod, snapshot
from dovetail.core import wording
from dovetail.core.provisioning.plan import plan_provisioning
from dovetail.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, NODEPOOL, ZONE
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.requirements import Requirements
from dovetail.model.resources import fits
from dovetail.model.snapshot import ClusterNode

FAMILY = "karpenter.kwok.sh/instance-family"


def types_of(claim: NodeClaim) -> tuple[str, ...]:
    return next(each.values for each in claim.spec.requirements if each.key == INSTANCE_TYPE)


def wants(claim: NodeClaim, key: str) -> frozenset[str]:
    return claim.requirements.get(key).values


def test_nothing_waits_nothing_is_launched():
    assert plan_provisioning(snapshot(pools=[nodepool()])).launches == ()


def test_equal_pods_share_one_node_when_it_can_hold_them():
    plan = plan_provisioning(snapshot([pod(f"web-{n}") for n in range(10)], pools=[nodepool()]))
    assert [len(launch.pods) for launch in plan.launches] == [10]
    assert types_of(plan.launches[0].claim) == ("m.huge",)


def test_types_are_listed_cheapest_first_and_only_those_that_fit():
    plan = plan_provisioning(snapshot([pod(cpu="3")], pools=[nodepool()]))
    assert types_of(plan.launches[0].claim) == ("m.large", "m.huge")


def test_a_pod_runs_on_an_existing_node_before_anything_is_launched():
    existing = ClusterNode(node(), None)
    plan = plan_provisioning(snapshot([pod()], nodes=[existing], pools=[nodepool()]))
    assert plan.launches == ()
    assert [where for _, where in plan.node_by_pod] == ["node-1"]


def test_an_unlaunched_claim_keeps_the_resources_of_its_pods():
    requests = {"resources": {"requests": {"cpu": "1", "memory": "1Gi", "pods": "1"}}}
    starting = ClusterNode(None, claim(spec=requests))
    plan = plan_provisioning(snapshot([pod("first"), pod("second")], nodes=[starting], pools=[nodepool()]))
    assert [where for _, where in plan.node_by_pod] == ["default-1"]
    assert len(plan.launches) == 1


def test_a_deleted_node_takes_no_pods_and_its_pods_are_rescheduled():
    leaving = claim(metadata={"deletionTimestamp": "2026-01-05T11:00:00Z", "name": "old"}, status={"providerID": "x"})
    going = ClusterNode(node(spec={"providerID": "x"}), leaving, (pod("moved", on="node-1"),))
    plan = plan_provisioning(snapshot([pod("new")], nodes=[going], pools=[nodepool()]))
    assert sorted(each.name for launch in plan.launches for each in launch.pods) == ["moved", "new"]


def test_selector_and_affinity_narrow_the_claim():
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["nowhere"]}]},
                    {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["zone-b"]}]},
                ]
            }
        }
    }
    spec = {"nodeSelector": {CAPACITY_TYPE: "on-demand"}, "affinity": affinity}
    plan = plan_provisioning(snapshot([pod(spec=spec)], pools=[nodepool()]))
    assert wants(plan.launches[0].claim, ZONE) == {"zone-b"}
    assert wants(plan.launches[0].claim, CAPACITY_TYPE) == {"on-demand"}


def test_heavier_pools_are_tried_first_and_ties_go_to_the_end_of_the_alphabet():
    pools = [nodepool("a", weight=10), nodepool("b", weight=10), nodepool("c")]
    plan = plan_provisioning(snapshot([pod()], pools=pools))
    assert plan.launches[0].claim.metadata.labels[NODEPOOL] == "b"


@pytest.mark.parametrize("unusable", [nodepool(ready=False), nodepool(replicas=3)])
def test_pools_that_are_not_ready_or_static_make_no_nodes(unusable):
    plan = plan_provisioning(snapshot([pod()], pools=[unusable]))
    assert plan.launches == ()
    assert "no NodePool can launch nodes now" in wording.message(plan.refusals[0])


def test_untolerated_taints_keep_pods_off_a_pool():
    tainted = nodepool(template={"taints": [{"key": "team", "value": "ml", "effect": "NoSchedule"}]})
    plan = plan_provisioning(snapshot([pod()], pools=[tainted]))
    assert plan.launches == ()
    assert "did not tolerate taint team=ml:NoSchedule" in wording.message(plan.refusals[0])


def test_limits_hold_within_one_run():
    pool = nodepool(limits={"cpu": "8"}, template={"requirements": [_only("m.large")]})
    plan = plan_provisioning(snapshot([pod(f"p{n}", cpu="4") for n in range(5)], pools=[pool]))
    assert len(plan.launches) == 2
    assert len(plan.refusals) == 3
    assert "exceed limits" in wording.message(plan.refusals[0])


def test_node_limits_hold_within_one_run():
    pool = nodepool(limits={"nodes": "1"}, template={"requirements": [_only("m.small")]})
    plan = plan_provisioning(snapshot([pod(f"p{n}", cpu="2") for n in range(3)], pools=[pool]))
    assert len(plan.launches) == 1


def test_daemons_are_part_of_the_price_of_a_node():
    plan = plan_provisioning(snapshot([pod(cpu="2")], pools=[nodepool()], daemon_sets=[daemon_set()]))
    only = plan.launches[0].claim
    assert types_of(only) == ("m.large", "m.huge")
    assert str(only.spec.resources.requests["cpu"]) == "2100m"


def test_a_pod_that_fits_nowhere_is_refused_with_the_reasons():
    existing = [ClusterNode(node(f"n{n}", cpu="1"), None) for n in range(2)]
    tainted = node("t", taints=[{"key": "gpu", "effect": "NoSchedule"}])
    nodes = [*existing, ClusterNode(tainted, None)]
    plan = plan_provisioning(snapshot([pod(cpu="64")], nodes=nodes, pools=[nodepool()]))
    message = wording.message(plan.refusals[0])
    assert "0/3 nodes are available: 1 node(s) had untolerated taint {gpu:NoSchedule}, 2 Insufficient cpu" in message
    assert "NodePool default: no instance type has enough resources" in message


def test_no_node_is_launched_for_a_pod_that_excludes_nodepools():
    term = {"matchExpressions": [{"key": NODEPOOL, "operator": "DoesNotExist"}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    plan = plan_provisioning(snapshot([pod(spec={"affinity": {"nodeAffinity": required}})], pools=[nodepool()]))
    assert plan.launches == ()
    assert plan.refusals[0].code == "ConfiguredElsewhere"


def test_claims_carry_what_drift_and_ownership_need():
    pool = nodepool(template_metadata={"labels": {"team": "a"}, "annotations": {"note": "x"}})
    made = plan_provisioning(snapshot([pod()], pools=[pool])).launches[0].claim
    assert made.metadata.generate_name == "default-"
    assert made.metadata.labels["team"] == "a"
    assert made.metadata.labels["karpenter.kwok.sh/kwoknodeclass"] == "default"
    assert made.metadata.annotations["karpenter.sh/nodepool-hash-version"] == "v3"
    assert made.metadata.owner_references[0].uid == "uid-default"
    assert made.spec.expire_after is not None
    assert str(made.spec.expire_after) == "720h"


def test_a_soft_expiry_leaves_the_claim_without_a_hard_one():
    pool = nodepool(disruption={"expireAfter": "720h"})
    made = plan_provisioning(snapshot([pod()], pools=[pool])).launches[0].claim
    assert made.spec.expire_after is not None
    assert made.spec.expire_after.never


def test_a_claim_that_is_not_launched_counts_against_limits_as_the_largest_it_may_become():
    """A new leader finds claims that the one before it had only just made."""
    starting = ClusterNode(None, claim(spec={"requirements": [_only("m.large")]}))
    pool = nodepool(limits={"cpu": "6"}, template={"requirements": [_only("m.large")]})
    plan = plan_provisioning(snapshot([pod(cpu="3")], nodes=[starting], pools=[pool]))
    assert plan.launches == ()
    assert "exceed limits" in wording.message(plan.refusals[0])


def _only(name: str) -> dict[str, object]:
    return {"key": INSTANCE_TYPE, "operator": "In", "values": [name]}


sizes = st.tuples(st.integers(1, 32).map(lambda n: f"{n * 250}m"), st.integers(1, 64).map(lambda n: f"{n * 256}Mi"))


@settings(max_examples=60, deadline=None)
@given(st.lists(sizes, max_size=25), st.integers(0, 3))
def test_law_every_pod_is_placed_once_or_refused_and_nothing_is_overfilled(wanted, existing):
    pods = [pod(f"p{n}", cpu, memory) for n, (cpu, memory) in enumerate(wanted)]
    nodes = [ClusterNode(node(f"n{n}"), None) for n in range(existing)]
    plan = plan_provisioning(snapshot(pods, nodes=nodes, pools=[nodepool()]))
    launched = [each.key for launch in plan.launches for each in launch.pods]
    on_nodes = [key for key, _ in plan.node_by_pod]
    refused = [refusal.object.name for refusal in plan.refusals]
    placed = [key.name for key in (*launched, *on_nodes)] + refused
    assert sorted(placed) == sorted(each.name for each in pods)
    by_name = {each.name: each for each in (SMALL, LARGE, HUGE)}
    for launch in plan.launches:
        for name in types_of(launch.claim):
            assert fits(launch.claim.spec.resources.requests, by_name[name].allocatable)


@settings(max_examples=40, deadline=None)
@given(st.lists(sizes, min_size=2, max_size=12), st.randoms())
def test_law_the_order_pods_are_listed_in_does_not_matter(wanted, random):
    pods = [pod(f"p{n:02}", cpu, memory) for n, (cpu, memory) in enumerate(wanted)]
    shuffled = list(pods)
    random.shuffle(shuffled)
    assert plan_provisioning(snapshot(pods, pools=[nodepool()])) == plan_provisioning(
        snapshot(shuffled, pools=[nodepool()])
    )


def required(key, *values):
    return {"requirements": [{"key": key, "operator": "In", "values": list(values)}]}


@pytest.mark.parametrize("key", ["karpenter.k8s.aws/placement-group-id", "karpenter.k8s.aws/instance-famly"])
def test_a_label_of_the_provider_that_no_instance_type_has_is_never_promised(key):
    plan = plan_provisioning(snapshot([pod()], pools=[nodepool(template=required(key, "a"))]))
    assert plan.launches == ()
    assert len(plan.refusals) == 1


def test_a_label_of_the_provider_that_the_pool_requires_is_left_to_the_instance():
    typed = replace(LARGE, requirements=LARGE.requirements.add(Requirements.from_labels({FAMILY: "m"})))
    pool = nodepool(template=required(FAMILY, "m"))
    plan = plan_provisioning(snapshot([pod()], pools=[pool], types=(typed, SMALL)))
    (launch,) = plan.launches
    assert types_of(launch.claim) == (LARGE.name,)
    assert FAMILY not in launch.claim.metadata.labels


def test_a_pod_that_selects_an_unknown_label_of_the_provider_stays_pending_with_the_label_that_was_meant():
    selector = {"nodeSelector": {"karpenter.k8s.aws/instance-famly": "m5"}}
    plan = plan_provisioning(snapshot([pod(spec=selector)], pools=[nodepool()]))
    assert plan.launches == ()
    (refusal,) = plan.refusals
    assert "did you mean karpenter.k8s.aws/instance-family?" in wording.message(refusal)


FLEXIBLE = {"requirements": [{"key": INSTANCE_TYPE, "operator": "Exists", "minValues": 2}]}
RELAXED = "karpenter.sh/nodeclaim-min-values-relaxed"


def test_min_values_that_are_not_met_refuse_a_pod_unless_they_are_relaxed():
    """A single type is large enough."""
    found = snapshot([pod(cpu="8")], pools=[nodepool(template=FLEXIBLE)])
    assert plan_provisioning(found).launches == ()
    (launch,) = plan_provisioning(replace(found, relax_min_values=True)).launches
    assert types_of(launch.claim) == ("m.huge",)
    assert launch.claim.requirements.get(INSTANCE_TYPE).min_values == 1
    assert launch.claim.metadata.annotations[RELAXED] == "true"


def test_min_values_that_are_met_stay_as_they_are_when_they_may_be_relaxed():
    found = snapshot([pod(cpu="3")], pools=[nodepool(template=FLEXIBLE)])
    (strict,), (relaxed,) = (
        plan_provisioning(replace(found, relax_min_values=each)).launches for each in (False, True)
    )
    assert relaxed.claim == strict.claim
    assert strict.claim.requirements.get(INSTANCE_TYPE).min_values == 2
    assert RELAXED not in strict.claim.metadata.annotations


def test_min_values_of_a_label_that_no_type_has_are_left_out_of_the_claim_when_relaxed():
    """The schema of a NodeClaim demands at least 1."""
    wanted = {"requirements": [{"key": "example.com/team", "operator": "Exists", "minValues": 1}]}
    found = replace(snapshot([pod()], pools=[nodepool(template=wanted)]), relax_min_values=True)
    (launch,) = plan_provisioning(found).launches
    assert all(each.min_values is None for each in launch.claim.requirements.values())
    assert launch.claim.metadata.annotations[RELAXED] == "true"
