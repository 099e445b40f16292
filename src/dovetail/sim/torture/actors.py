"""Carries out the user actions of a trial, and the faults of its instances and nodes.

Actions change the simulated cluster directly, so injected faults of calls do not affect them. An action selects its
object when it happens, by an index into the objects sorted by key, so a trial with pieces removed still makes sense.
The observer learns which nodes were affected: invariants excuse what follows from that.
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
from dovetail.sim.torture.cluster_generator import DO_NOT_DISRUPT, NODE_CLASS, PRIORITIES, draw_job, pod_on
from dovetail.sim.torture.invariants.observer import PAUSE_CONFIG_MAP, Observer
from dovetail.sim.torture.trial import Parameters, TrialPiece
from dovetail.sim.world import World

T = TypeVar("T")
PROTECTED_AT = "torture/protected-at"  # an annotation
PAUSE = "dovetail.sh/pause"
_NO_EVICTION = {"maxUnavailable": 0, "minAvailable": None}


def apply_initial_objects(world: World, pieces: Sequence[TrialPiece]) -> None:
    """Create the objects that exist from the start."""
    world.apply(NODE_CLASS)
    for name, value in PRIORITIES.items():
        meta = {"name": name}
        world.apply({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta, "value": value})
    for piece in pieces:
        parameters = piece.parameters
        for manifest in parameters["manifests"] if "manifests" in parameters else [parameters["manifest"]]:
            world.apply(manifest)


class Actors:
    """The users and the cloud of a trial. `actions` maps the name of a piece to the function that carries it out."""

    def __init__(self, observer: Observer, seed: int) -> None:
        self._observer = observer
        self._world = observer.world
        self._seed = seed
        self._unhealthy: list[tuple[Key, str]] = []
        self.actions: dict[str, Callable[[Parameters], None]] = {
            "scale": self._scale,
            "roll out": self._roll_out,
            "run job": lambda parameters: self._apply(draw_job(self._seed, parameters["number"])),
            "delete node": self._delete_node,
            "delete claim": self._delete_claim,
            "delete pool": self._delete_pool,
            "delete pod": lambda parameters: self._delete(POD, parameters),
            "cordon node": lambda parameters: self._change(NODE, parameters, {"spec": {"unschedulable": True}}),
            "uncordon node": lambda parameters: self._change(NODE, parameters, {"spec": {"unschedulable": False}}),
            "change template": self._change_template,
            "change budgets": self._change_budgets,
            "change disruption settings": lambda parameters: self._change(
                NODE_POOL, parameters, {"spec": {"disruption": parameters["settings"]}}
            ),
            "change limits": lambda parameters: self._change(
                NODE_POOL, parameters, {"spec": {"limits": parameters["limits"]}}
            ),
            "protect pod": lambda parameters: self._protect(POD, parameters, parameters["until"]),
            "protect node": lambda parameters: self._protect(NODE, parameters, "true"),
            "loosen PodDisruptionBudget": lambda parameters: self._loosen_pdb(self._pick(PDB, parameters)),
            "tighten PodDisruptionBudget": lambda parameters: self._change(PDB, parameters, {"spec": _NO_EVICTION}),
            "pause pool": lambda parameters: self._change(
                NODE_POOL, parameters, _annotation(PAUSE, parameters["until"])
            ),
            "pause all pools": lambda parameters: self._pause_all_pools(parameters["until"]),
            "revert template": self._revert_template,
            "run pod on node": self._run_pod,
            "instance dies": partial(self._affect_instance, "kill"),
            "instance vanishes": partial(self._affect_instance, "vanish"),
            "instance is lost": self._lose_instance,
            "node is force-deleted": partial(self._affect_instance, "remove_node"),
            "instance is reclaimed": partial(self._affect_instance, "interrupt"),
            "cloud warning": self._warn,
            "node is unhealthy": self._make_unhealthy,
        }

    def _pick(self, resource: Resource, parameters: Parameters) -> ObjectVersion | None:
        candidates = sorted((each for each in self._world.store.all(resource) if not each.deleting), key=_by_key)
        leaving = [each for each in candidates if self._is_leaving(each)] if parameters.get("leaving") else []
        candidates = leaving or candidates
        return candidates[parameters["which"] % len(candidates)] if candidates else None

    def _is_leaving(self, record: ObjectVersion) -> bool:
        """Whether a node, or the node of a pod, is being deleted or has a disruption taint."""
        node = record if record.resource == NODE else self._world.store.find(NODE, Key("", record.node))
        if node is None:
            return False
        taints = node.plain["spec"].get("taints") or ()
        return node.deleting or any(each["key"].startswith("karpenter.sh/disrupt") for each in taints)

    def _apply(self, manifest: dict[str, Any]) -> None:
        if self._world.store.find(JOBS, Key("default", manifest["metadata"]["name"])) is None:
            self._world.apply(manifest)

    def _change(self, resource: Resource, parameters: Parameters, body: dict[str, Any]) -> None:
        picked = self._pick(resource, parameters)
        if picked is not None:
            self._world.api.patch(resource, picked.key, Patch(body))

    def _delete(self, resource: Resource, parameters: Parameters) -> None:
        picked = self._pick(resource, parameters)
        if picked is not None:
            self._world.api.delete(resource, picked.key)

    def _delete_claim(self, parameters: Parameters) -> None:
        newest = self._newest_node() if parameters.get("newest") else None
        owners = newest.owners if newest is not None else []
        claim = next((each for each in map(self._world.store.by_uid.get, owners) if each is not None), None)
        claim = claim or self._pick(NODE_CLAIM, parameters)
        if claim is not None:
            self._world.api.delete(NODE_CLAIM, claim.key)

    def _newest_node(self) -> ObjectVersion | None:
        """The node to which the most recently bound pod is bound."""
        bound, by_uid = self._observer.since.bound, self._world.store.by_uid
        last = max(bound, key=lambda uid: (bound[uid], uid), default="")
        node = self._world.store.find(NODE, Key("", by_uid[last].node)) if last else None
        return node if node is not None and not node.deleting else None

    def _delete_node(self, parameters: Parameters) -> None:
        newest = self._newest_node() if parameters.get("newest") else None
        picked = newest or self._pick(NODE, parameters)
        if picked is not None:
            self._observer.deleted_by_users.add(picked.key.name)
            act_on_node(self._world, "delete_nodes", picked.key.name)

    def _run_pod(self, parameters: Parameters) -> None:
        """Create a pod with `spec.nodeName`, possibly on a node that is being removed."""
        candidates = sorted(self._world.store.all(NODE), key=_by_key)
        leaving = [each for each in candidates if self._is_leaving(each)] if parameters["leaving"] else []
        nodes = leaving or candidates
        if nodes and self._world.store.find(POD, Key("default", parameters["name"])) is None:
            node = nodes[parameters["which"] % len(nodes)]
            self._world.apply(pod_on(node.key.name, parameters["name"], parameters["tolerates"]))

    def _delete_pool(self, parameters: Parameters) -> None:
        picked = self._pick(NODE_POOL, parameters)
        if picked is not None and picked.key.name != "pool-0":
            self._world.api.delete(NODE_POOL, picked.key)

    def _scale(self, parameters: Parameters) -> None:
        self._change(DEPLOYMENTS, parameters, {"spec": {"replicas": parameters["replicas"]}})

    def _roll_out(self, parameters: Parameters) -> None:
        stamp = {"annotations": {"rolled-out": str(self._now)}}
        self._change(DEPLOYMENTS, parameters, {"spec": {"template": {"metadata": stamp}}})

    def _change_template(self, parameters: Parameters) -> None:
        # A template without labels has no map at all: Karpenter's hash tells it from an empty one.
        labels = {"turn": parameters["label"]} if parameters["label"] is not None else None
        self._change(NODE_POOL, parameters, {"spec": {"template": {"metadata": {"labels": labels}}}})

    def _revert_template(self, parameters: Parameters) -> None:
        """Revert the last change of the template."""
        picked = self._pick(NODE_POOL, parameters)
        versions = self._observer.pools.get(picked.key.name, []) if picked is not None else []
        templates = [version["spec"]["template"].get("metadata") or {} for _, version in versions]
        labels = [(each.get("labels") or {}).get("turn") for each in templates]
        before = [each for each in labels if each != labels[-1]]
        if before:
            self._change_template({**parameters, "label": before[-1]})

    def _pause_all_pools(self, until: str | None) -> None:
        """Annotate the ConfigMap that pauses all NodePools. None deletes it; a number pauses for so many seconds."""
        namespace, name = PAUSE_CONFIG_MAP
        exists = self._world.store.find(CONFIG_MAPS, Key(namespace, name)) is not None
        if until is None:
            if exists:
                self._world.api.delete(CONFIG_MAPS, Key(namespace, name))
            return
        if until.isdigit():
            until = (self._world.clock.now() + timedelta(seconds=int(until))).strftime("%Y-%m-%dT%H:%M:%SZ")
        meta = {"name": name, "namespace": namespace, "annotations": {PAUSE: until}}
        self._world.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})

    def _change_budgets(self, parameters: Parameters) -> None:
        self._change(NODE_POOL, parameters, {"spec": {"disruption": {"budgets": parameters["budgets"]}}})

    def _protect(self, resource: Resource, parameters: Parameters, until: str) -> None:
        protection = {DO_NOT_DISRUPT: until, PROTECTED_AT: str(self._now)}
        self._change(resource, parameters, {"metadata": {"annotations": protection}})

    def _loosen_pdb(self, budget: ObjectVersion | None) -> None:
        if budget is not None:
            spec = {"maxUnavailable": 1, "minAvailable": None}
            self._world.api.patch(PDB, budget.key, Patch({"spec": spec}))

    def _affect_instance(self, action: str, parameters: Parameters) -> None:
        """Kill, delete or interrupt the instance of a node. Invariants excuse the consequences."""
        picked = self._pick(NODE, parameters)
        if picked is not None:
            self._observer.excused_nodes.add(picked.key.name)
            if action == "interrupt":
                self._note_warning(picked)
            act_on_node(self._world, action, picked.key.name)

    def _lose_instance(self, parameters: Parameters) -> None:
        """End an instance, as the cloud knows, while its Node remains; `draining` prefers a node in a drain."""
        lost = self._observer.lost_nodes
        candidates = sorted((each for each in self._world.store.all(NODE) if each.key.name not in lost), key=_by_key)
        drained = [each for each in candidates if each.deleting] if parameters["draining"] else []
        if candidates:
            picked = (drained or candidates)[parameters["which"] % len(drained or candidates)]
            lost[picked.key.name] = self._now
            self._observer.excused_nodes.add(picked.key.name)
            act_on_node(self._world, "fail", picked.key.name)

    def _warn(self, parameters: Parameters) -> None:
        picked = self._pick(NODE, parameters)
        if picked is not None:
            self._note_warning(picked)
            self._world.instance_failures.warn(picked.key.name, parameters["kind"])

    def _note_warning(self, node: ObjectVersion) -> None:
        self._observer.warned.add(node.plain["spec"].get("providerID", ""))

    def _make_unhealthy(self, parameters: Parameters) -> None:
        picked = self._pick(NODE, parameters)
        if picked is not None:
            self._unhealthy.append((picked.key, parameters["condition"]))
            self._world.instance_failures.turn(picked.key.name, parameters["condition"], parameters["status"])

    @property
    def _now(self) -> float:
        return round(asyncio.get_running_loop().time(), 1)

    def remove_obstacles(self) -> None:
        """Remove limits, budgets, pauses, protections and expiration: they may keep a cluster from settling."""
        world = self._world
        self._pause_all_pools(None)
        for pool in world.store.all(NODE_POOL):
            unrestricted = {"budgets": [{"nodes": "100%"}], "expireAfter": "Never"}
            body = {**_annotation(PAUSE, None), "spec": {"limits": None, "disruption": unrestricted}}
            world.api.patch(NODE_POOL, pool.key, Patch(body))
        for budget in world.store.all(PDB):
            self._loosen_pdb(budget)
        unprotected = {"metadata": {"annotations": {DO_NOT_DISRUPT: None, PROTECTED_AT: None}}}
        for deployment in world.store.all(DEPLOYMENTS):
            world.api.patch(DEPLOYMENTS, deployment.key, Patch({"spec": {"template": unprotected}}))
        for resource in (POD, NODE, NODE_CLAIM):
            for each in world.store.all(resource):
                world.api.patch(resource, each.key, Patch(unprotected))
        for key, condition in self._unhealthy:
            if world.store.find(NODE, key) is not None and key.name not in self._observer.excused_nodes:
                world.instance_failures.turn(key.name, condition, "True" if condition == "Ready" else "False")
        self.stop_expiration()
        # The controllers must handle lost instances without help.
        removable = self._observer.excused_nodes - self._observer.lost_nodes.keys()
        for name in sorted(removable):
            if world.store.find(NODE, Key("", name)) is not None:
                world.instance_failures.vanish(name)

    def stop_expiration(self) -> None:
        """Set `expireAfter` of all NodeClaims to Never: nodes that expire every 25 minutes keep a cluster changing.

        Written to the store, because NodeClaims are immutable and a change of the template would replace all nodes.
        """
        store = self._world.store
        for claim in store.all(NODE_CLAIM):
            spec = claim.plain["spec"]
            if spec.get("expireAfter") != "Never":
                store.put(NODE_CLAIM, {**claim.plain, "spec": {**spec, "expireAfter": "Never"}})


def _annotation(name: str, value: str | None) -> dict[str, Any]:
    return {"metadata": {"annotations": {name: value}}}


def _by_key(record: ObjectVersion) -> Key:
    return record.key
