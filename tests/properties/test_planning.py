"""Law: a planner that remembers earlier passes says what a new one says, whatever happened in between."""

import random
from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from dovetail.core.disruption.planner import Planner
from dovetail.model.budget import BudgetSpec
from dovetail.model.duration import Delay
from dovetail.model.kube_object import Condition
from dovetail.model.labels import DO_NOT_DISRUPT
from dovetail.model.nodeclaim import DRIFTED, INITIALIZED, LAUNCHED, REGISTERED
from dovetail.model.nodepool import Disruption
from dovetail.model.percentage import Percentage
from dovetail.model.resources import Quantity
from dovetail.settings import DecisionOptions
from reference.clusters import random_cluster

POLICIES = ("WhenEmptyOrUnderutilized", "WhenEmptyOrUnderutilized", "WhenEmpty", "Balanced")
SPANS = ("0s", "0s", "1m", "1h", "Never")
UNRESTRAINED = Percentage(0)  # minSavings: else hardly anything would be simulated
ANNOTATIONS = ({DO_NOT_DISRUPT: "true"}, {DO_NOT_DISRUPT: "90s"}, {"example.com/seen": "yes"}, {})
structs = msgspec.structs


class Story:
    """A random cluster, and one random change after the other."""

    def __init__(self, seed):
        self.rng = random.Random(seed)  # noqa: S311 - not for secrets
        self.now = random_cluster(seed, size="small" if seed % 3 else "large").snapshot
        self.number = 0
        settled = [self._settled(node) for node in self.now.nodes if not node.leaving]
        pools = {name: self._disrupting(pool) for name, pool in self.now.nodepools.items()}
        self.now = replace(self.now, nodes=tuple(settled), unbound_pods=(), nodepools=pools)

    def _settled(self, node):
        """A claim that has been there for a while."""
        if node.claim is None:
            return node
        at = self.now.at - timedelta(seconds=self.rng.choice((20, 600, 90_000)))
        kinds = [LAUNCHED, REGISTERED, INITIALIZED, *([DRIFTED] if self.rng.random() < 0.1 else ())]
        conditions = tuple(
            Condition(type=kind, status="True", reason="Told", last_transition_time=at)
            for kind in (kinds if node.initialized else [])
        )
        meta = structs.replace(node.claim.metadata, creation_timestamp=at)
        status = structs.replace(node.claim.status, conditions=conditions or node.claim.status.conditions)
        return replace(node, claim=structs.replace(node.claim, metadata=meta, status=status))

    def _disrupting(self, pool):
        draw = self.rng.choice
        written = Disruption(
            consolidation_policy=draw(POLICIES),
            consolidate_after=Delay.parse(draw(SPANS)),
            consolidation_grace_period=Delay.parse("30s") if self.rng.random() < 0.2 else None,
            budgets=(BudgetSpec(nodes=draw(("1", "50%"))),) if self.rng.random() < 0.2 else (),
            expire_after=Delay.parse("2h") if self.rng.random() < 0.2 else None,
            min_savings=None if self.rng.random() < 0.2 else UNRESTRAINED,
        )
        return structs.replace(pool, spec=structs.replace(pool.spec, disruption=written))

    def change(self):
        """One thing happens."""
        self.number += 1
        often = (self.comes, self.leaves, self.moves, self.is_annotated, self.is_resized)
        kinds = (*often * 4, self.time_passes, self.is_edited)
        rare = (self.node_comes, self.node_goes, self.pool_changes, self.waits)
        self.rng.choice((*kinds, *rare))()
        self.now = replace(self.now, at=self.now.at + timedelta(seconds=self.rng.choice((0, 1, 10))))

    def _node(self, *, inhabited=False):
        places = [
            at for at, node in enumerate(self.now.nodes) if node.node is not None and (node.pods or not inhabited)
        ]
        return self.rng.choice(places) if places else None

    def _put(self, place, pods):
        nodes = self.now.nodes
        changed = replace(nodes[place], pods=tuple(pods))
        self.now = replace(self.now, nodes=(*nodes[:place], changed, *nodes[place + 1 :]))

    def _bound(self, pod, place):
        name = f"{pod.metadata.name}-{self.number}"
        spec = structs.replace(pod.spec, node_name=self.now.nodes[place].name)
        return structs.replace(pod, metadata=structs.replace(pod.metadata, name=name, uid=name), spec=spec)

    def comes(self):
        source, place = self._node(inhabited=True), self._node()
        if source is not None:
            equivalent = self._bound(self.rng.choice(self.now.nodes[source].pods), place)
            self._put(place, (*self.now.nodes[place].pods, equivalent))

    def leaves(self):
        place = self._node(inhabited=True)
        if place is None:
            return None
        chosen = self.rng.choice(self.now.nodes[place].pods)
        self._put(place, [pod for pod in self.now.nodes[place].pods if pod is not chosen])
        return chosen

    def moves(self):
        chosen, place = self.leaves(), self._node()
        if chosen is not None:
            self._put(place, (*self.now.nodes[place].pods, self._bound(chosen, place)))

    def is_annotated(self):
        place = self._node(inhabited=True)
        if place is not None:
            chosen = self.rng.choice(self.now.nodes[place].pods)
            meta = structs.replace(chosen.metadata, annotations=self.rng.choice(ANNOTATIONS))
            other = structs.replace(chosen, metadata=meta)
            self._put(place, [other if pod is chosen else pod for pod in self.now.nodes[place].pods])

    def is_resized(self):
        """In place, as the kubelet does it."""
        place = self._node(inhabited=True)
        if place is not None:
            chosen = self.rng.choice(self.now.nodes[place].pods)
            first, *others = chosen.spec.containers
            wanted = {**first.resources.requests, "cpu": Quantity.parse(self.rng.choice(("50m", "700m", "2")))}
            first = structs.replace(first, resources=structs.replace(first.resources, requests=wanted))
            other = structs.replace(chosen, spec=structs.replace(chosen.spec, containers=(first, *others)))
            self._put(place, [other if pod is chosen else pod for pod in self.now.nodes[place].pods])

    def is_edited(self):
        """The claim's clock starts anew, as after a pod event."""
        place = self._node()
        if place is not None and self.now.nodes[place].claim is not None:
            node = self.now.nodes[place]
            status = structs.replace(node.claim.status, last_pod_event_time=self.now.at)
            changed = replace(node, claim=structs.replace(node.claim, status=status))
            self.now = replace(self.now, nodes=(*self.now.nodes[:place], changed, *self.now.nodes[place + 1 :]))

    def time_passes(self):
        span = self.rng.choice((timedelta(seconds=31), timedelta(minutes=61), timedelta(hours=3)))
        self.now = replace(self.now, at=self.now.at + span)

    def node_comes(self):
        place = self._node()
        if place is not None:
            node = self.now.nodes[place]
            name = f"{node.name}-{self.number}"
            equivalent = structs.replace(node.node, metadata=structs.replace(node.node.metadata, name=name, uid=name))
            claim = node.claim and structs.replace(
                node.claim, metadata=structs.replace(node.claim.metadata, name=name, uid=name)
            )
            self.now = replace(self.now, nodes=(*self.now.nodes, replace(node, node=equivalent, claim=claim, pods=())))

    def node_goes(self):
        place = self._node()
        if place is not None and len(self.now.nodes) > 2:
            self.now = replace(self.now, nodes=(*self.now.nodes[:place], *self.now.nodes[place + 1 :]))

    def pool_changes(self):
        name = self.rng.choice(sorted(self.now.nodepools))
        pools = {**self.now.nodepools, name: self._disrupting(self.now.nodepools[name])}
        self.now = replace(self.now, nodepools=pools)

    def waits(self):
        """A pod that needs a place appears, or the last of them is gone."""
        source = self._node(inhabited=True)
        if self.now.unbound_pods or source is None:
            self.now = replace(self.now, unbound_pods=())
        else:
            pod = self._bound(self.rng.choice(self.now.nodes[source].pods), source)
            pod = structs.replace(pod, spec=structs.replace(pod.spec, node_name=""))
            self.now = replace(self.now, unbound_pods=(pod,))


def told(plan):
    """Everything a plan says, as plain values."""
    commands = {
        method: [
            (str(each), [(draft.pool_name, sorted(draft.type_names), draft.pod_keys) for draft in each.replacements])
            for each in made
        ]
        for method, made in plan.commands_by_method.items()
    }
    return plan.refusals_by_method, commands, list(map(str, plan.commands)), plan.wakeup_at


@pytest.mark.parametrize("chunk", range(6))
def test_a_planner_that_remembers_says_what_a_new_one_says(chunk):
    codes = set()
    for seed in range(chunk * 40, chunk * 40 + 40):
        story, gates = Story(seed), DecisionOptions(spot_to_spot=seed % 2 == 0)
        planner = Planner(gates)
        for number in range(8):
            if number:
                story.change()
            remembered = told(planner.plan(story.now, thorough=True))
            assert remembered == told(Planner(gates).plan(story.now, thorough=True)), f"seed {seed}, change {number}"
            codes |= {each.code for said in remembered[0].values() for each in said}
            codes |= {method for method, made in remembered[1].items() if made}
    assert codes >= {"single-node", "drift", "Waiting", "Unschedulable", "NotEmpty", "DoNotDisruptPod"}
