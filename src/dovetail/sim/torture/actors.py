"""What people and the cloud do to the cluster in a story. They reach the world directly: nothing of theirs fails.

Which object a piece means is settled when it happens, by its place in the order of names, so that a story with pieces
left out still makes sense.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

from dovetail.model.kube_object import Key
from dovetail.ports.cluster import Patch
from dovetail.sim.kubernetes.kinds import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    JOBS,
    NODE,
    NODE_CLAIM,
    NODE_POOL,
    PDB,
    POD,
    Resource,
)
from dovetail.sim.kubernetes.store import ObjectVersion
from dovetail.sim.scenario.player import act_on_node
from dovetail.sim.torture.cluster_generator import NODE_CLASS, PRIORITIES, PROTECTION, draw_job, pod_on
from dovetail.sim.torture.invariants.observer import PAUSE_CONFIG_MAP, Observer
from dovetail.sim.torture.trial import Terms, TrialPiece
from dovetail.sim.world import World

T = TypeVar("T")
PROTECTED_AT = "torture/protected-at"
PAUSE = "dovetail.sh/pause"
_NO_EVICTION = {"maxUnavailable": 0, "minAvailable": None}


def set_scene(world: World, pieces: Sequence[TrialPiece]) -> None:
    """What is there from the start."""
    world.apply(NODE_CLASS)
    for name, value in PRIORITIES.items():
        meta = {"name": name}
        world.apply({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta, "value": value})
    for piece in pieces:
        for manifest in piece.terms["manifests"] if "manifests" in piece.terms else [piece.terms["manifest"]]:
            world.apply(manifest)


class Actors:
    """Whoever else has their hands on the cluster."""

    def __init__(self, history: Observer, seed: int) -> None:
        self._history = history
        self._world = history.world
        self._seed = seed
        self._sick: list[tuple[Key, str]] = []
        self.deeds: dict[str, Callable[[Terms], None]] = {
            "scale": self._scale,
            "roll out": self._roll_out,
            "run job": lambda terms: self._apply(draw_job(self._seed, terms["number"])),
            "delete node": self._delete_node,
            "delete claim": self._delete_claim,
            "delete pool": self._delete_pool,
            "delete pod": lambda terms: self._delete(POD, terms),
            "cordon node": lambda terms: self._change(NODE, terms, {"spec": {"unschedulable": True}}),
            "uncordon node": lambda terms: self._change(NODE, terms, {"spec": {"unschedulable": False}}),
            "change template": self._change_template,
            "change budgets": self._change_budgets,
            "change disruption terms": lambda terms: self._change(
                NODE_POOL, terms, {"spec": {"disruption": terms["terms"]}}
            ),
            "change limits": lambda terms: self._change(NODE_POOL, terms, {"spec": {"limits": terms["limits"]}}),
            "protect pod": lambda terms: self._protect(POD, terms, terms["until"]),
            "protect node": lambda terms: self._protect(NODE, terms, "true"),
            "loosen disruption budget": lambda terms: self._loosen(self._pick(PDB, terms)),
            "tighten disruption budget": lambda terms: self._change(PDB, terms, {"spec": _NO_EVICTION}),
            "pause pool": lambda terms: self._change(NODE_POOL, terms, _annotation(PAUSE, terms["until"])),
            "pause everything": lambda terms: self._pause_everything(terms["until"]),
            "revert template": self._revert_template,
            "run pod on node": self._run_pod,
            "instance dies": partial(self._strike, "kill"),
            "instance vanishes": partial(self._strike, "vanish"),
            "instance is lost": self._lose,
            "node is removed": partial(self._strike, "remove_node"),
            "instance is reclaimed": partial(self._strike, "interrupt"),
            "cloud warns": self._warn,
            "node is sick": self._sicken,
        }

    def _pick(self, resource: Resource, terms: Terms) -> ObjectVersion | None:
        there = sorted((each for each in self._world.store.all(resource) if not each.deleting), key=_by_key)
        leaving = [each for each in there if self._leaving(each)] if terms.get("leaving") else []
        there = leaving or there
        return there[terms["which"] % len(there)] if there else None

    def _leaving(self, record: ObjectVersion) -> bool:
        """Whether a node, or the node of a pod, carries a taint of disruption or is deleted."""
        node = record if record.resource == NODE else self._world.store.find(NODE, Key("", record.node))
        if node is None:
            return False
        taints = node.plain["spec"].get("taints") or ()
        return node.deleting or any(each["key"].startswith("karpenter.sh/disrupt") for each in taints)

    def _apply(self, manifest: dict[str, Any]) -> None:
        if self._world.store.find(JOBS, Key("default", manifest["metadata"]["name"])) is None:
            self._world.apply(manifest)

    def _change(self, resource: Resource, terms: Terms, body: dict[str, Any]) -> None:
        picked = self._pick(resource, terms)
        if picked is not None:
            self._world.api.patch(resource, picked.key, Patch(body))

    def _delete(self, resource: Resource, terms: Terms) -> None:
        picked = self._pick(resource, terms)
        if picked is not None:
            self._world.api.delete(resource, picked.key)

    def _delete_claim(self, terms: Terms) -> None:
        newest = self._newest_node() if terms.get("newest") else None
        owners = newest.owners if newest is not None else []
        claim = next((each for each in map(self._world.store.by_uid.get, owners) if each is not None), None)
        claim = claim or self._pick(NODE_CLAIM, terms)
        if claim is not None:
            self._world.api.delete(NODE_CLAIM, claim.key)

    def _newest_node(self) -> ObjectVersion | None:
        """The node that a pod was bound to last."""
        bound, by_uid = self._history.since.bound, self._world.store.by_uid
        last = max(bound, key=lambda uid: (bound[uid], uid), default="")
        node = self._world.store.find(NODE, Key("", by_uid[last].node)) if last else None
        return node if node is not None and not node.deleting else None

    def _delete_node(self, terms: Terms) -> None:
        newest = self._newest_node() if terms.get("newest") else None
        picked = newest or self._pick(NODE, terms)
        if picked is not None:
            self._history.deleted_by_hand.add(picked.key.name)
            act_on_node(self._world, "delete_nodes", picked.key.name)

    def _run_pod(self, terms: Terms) -> None:
        """Put a pod on a node by name, also on one that is leaving."""
        there = sorted(self._world.store.all(NODE), key=_by_key)
        leaving = [each for each in there if self._leaving(each)] if terms["leaving"] else []
        nodes = leaving or there
        if nodes and self._world.store.find(POD, Key("default", terms["name"])) is None:
            node = nodes[terms["which"] % len(nodes)]
            self._world.apply(pod_on(node.key.name, terms["name"], terms["tolerates"]))

    def _delete_pool(self, terms: Terms) -> None:
        picked = self._pick(NODE_POOL, terms)
        if picked is not None and picked.key.name != "pool-0":
            self._world.api.delete(NODE_POOL, picked.key)

    def _scale(self, terms: Terms) -> None:
        self._change(DEPLOYMENTS, terms, {"spec": {"replicas": terms["replicas"]}})

    def _roll_out(self, terms: Terms) -> None:
        stamp = {"annotations": {"rolled-out": str(self._now)}}
        self._change(DEPLOYMENTS, terms, {"spec": {"template": {"metadata": stamp}}})

    def _change_template(self, terms: Terms) -> None:
        self._change(NODE_POOL, terms, {"spec": {"template": {"metadata": {"labels": {"turn": terms["label"]}}}}})

    def _revert_template(self, terms: Terms) -> None:
        """Change the template back to what it was before its last change."""
        picked = self._pick(NODE_POOL, terms)
        versions = self._history.pools.get(picked.key.name, []) if picked is not None else []
        templates = [version["spec"]["template"].get("metadata") or {} for _, version in versions]
        labels = [(each.get("labels") or {}).get("turn") for each in templates]
        before = [each for each in labels if each != labels[-1]]
        if before:
            self._change_template({**terms, "label": before[-1]})

    def _pause_everything(self, until: str | None) -> None:
        """Annotate the ConfigMap that pauses every NodePool; None deletes it. A number pauses for so many seconds."""
        namespace, name = PAUSE_CONFIG_MAP
        there = self._world.store.find(CONFIG_MAPS, Key(namespace, name)) is not None
        if until is None:
            if there:
                self._world.api.delete(CONFIG_MAPS, Key(namespace, name))
            return
        if until.isdigit():
            until = (self._world.clock.now() + timedelta(seconds=int(until))).strftime("%Y-%m-%dT%H:%M:%SZ")
        meta = {"name": name, "namespace": namespace, "annotations": {PAUSE: until}}
        self._world.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})

    def _change_budgets(self, terms: Terms) -> None:
        self._change(NODE_POOL, terms, {"spec": {"disruption": {"budgets": terms["budgets"]}}})

    def _protect(self, resource: Resource, terms: Terms, until: str) -> None:
        marks = {PROTECTION: until, PROTECTED_AT: str(self._now)}
        self._change(resource, terms, {"metadata": {"annotations": marks}})

    def _loosen(self, budget: ObjectVersion | None) -> None:
        if budget is not None:
            spec = {"maxUnavailable": 1, "minAvailable": None}
            self._world.api.patch(PDB, budget.key, Patch({"spec": spec}))

    def _strike(self, action: str, terms: Terms) -> None:
        """Something happens to the instance of a node; what follows from it is no fault of the controllers."""
        picked = self._pick(NODE, terms)
        if picked is not None:
            self._history.excused_nodes.add(picked.key.name)
            if action == "interrupt":
                self._note_warning(picked)
            act_on_node(self._world, action, picked.key.name)

    def _lose(self, terms: Terms) -> None:
        """The machine is gone, its provider knows, and its node stays; one that is drained, if there is one."""
        lost = self._history.lost_nodes
        there = sorted((each for each in self._world.store.all(NODE) if each.key.name not in lost), key=_by_key)
        drained = [each for each in there if each.deleting] if terms["draining"] else []
        if there:
            picked = (drained or there)[terms["which"] % len(drained or there)]
            lost[picked.key.name] = self._now
            self._history.excused_nodes.add(picked.key.name)
            act_on_node(self._world, "fail", picked.key.name)

    def _warn(self, terms: Terms) -> None:
        picked = self._pick(NODE, terms)
        if picked is not None:
            self._note_warning(picked)
            self._world.instance_failures.warn(picked.key.name, terms["kind"])

    def _note_warning(self, node: ObjectVersion) -> None:
        self._history.warned.add(node.plain["spec"].get("providerID", ""))

    def _sicken(self, terms: Terms) -> None:
        picked = self._pick(NODE, terms)
        if picked is not None:
            self._sick.append((picked.key, terms["condition"]))
            self._world.instance_failures.turn(picked.key.name, terms["condition"], terms["status"])

    @property
    def _now(self) -> float:
        return round(asyncio.get_running_loop().time(), 1)

    def make_peace(self) -> None:
        """Take away everything that may rightly keep a cluster from coming to rest."""
        world = self._world
        self._pause_everything(None)
        for pool in world.store.all(NODE_POOL):
            calm = {"budgets": [{"nodes": "100%"}], "expireAfter": "Never"}
            body = {**_annotation(PAUSE, None), "spec": {"limits": None, "disruption": calm}}
            world.api.patch(NODE_POOL, pool.key, Patch(body))
        for budget in world.store.all(PDB):
            self._loosen(budget)
        free = {"metadata": {"annotations": {PROTECTION: None, PROTECTED_AT: None}}}
        for deployment in world.store.all(DEPLOYMENTS):
            world.api.patch(DEPLOYMENTS, deployment.key, Patch({"spec": {"template": free}}))
        for resource in (POD, NODE, NODE_CLAIM):
            for each in world.store.all(resource):
                world.api.patch(resource, each.key, Patch(free))
        for key, condition in self._sick:
            if world.store.find(NODE, key) is not None and key.name not in self._history.excused_nodes:
                world.instance_failures.turn(key.name, condition, "True" if condition == "Ready" else "False")
        helped = self._history.excused_nodes - self._history.lost_nodes.keys()  # nobody helps with what is lost
        for name in sorted(helped):
            if world.store.find(NODE, Key("", name)) is not None:
                world.instance_failures.vanish(name)


def _annotation(name: str, value: str | None) -> dict[str, Any]:
    return {"metadata": {"annotations": {name: value}}}


def _by_key(record: ObjectVersion) -> Key:
    return record.key
