"""One case before both judges: the solver answers all at once, the real scheduler pod by pod in the solver's order.

Rooms are tried by name, those with an untolerated soft taint last. So a pod must land on the first node that the real
scheduler accepts: that the solver refused every earlier node is checked as well, not only that its choice is accepted.
"""

import json
from dataclasses import dataclass, field

from dovetail.core.scheduling.solver import solve
from dovetail.core.wording import message
from dovetail.model.taints import PREFER_NO_SCHEDULE, untolerated
from e2e.agreement import stage
from e2e.controlplane.api import eventually

ANSWERS_WITHIN = 15.0


@dataclass
class Outcome:
    """What came of one case."""

    placed: int = 0
    refused: int = 0
    stories: list = field(default_factory=list)


class Trial:
    """A case that is on stage already."""

    def __init__(self, control_plane, witness, case):
        self.api = control_plane.api
        self.witness = witness
        self.case = case
        self.snapshot = stage.snapshot(control_plane.kubeconfig)
        names = {(pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in case.waiting}
        self.pods = {pod.key: pod for pod in self.snapshot.unbound_pods if (pod.key.namespace, pod.key.name) in names}
        assert len(self.pods) == len(names)
        self.placement = solve(self.snapshot, tuple(self.pods.values()), [], respect_preferences=False)
        self.outcome = Outcome()

    def run(self):
        for key, node in self.placement.node_by_pod.items():
            if not self._place(self.pods[key], node):
                return self.outcome  # whatever follows is another cluster
        self._refuse([self.pods[key] for key in self.placement.refusals])
        return self.outcome

    # -- placed pods

    def _place(self, pod, node):
        self.witness.choose(pod.metadata.uid, node)
        self._release(pod)
        answer = eventually(lambda: self._answer(pod), f"{pod.key} is decided", ANSWERS_WITHIN, every=0.01)
        feasible = self.witness.feasible(pod.metadata.uid) or frozenset()
        first = min(feasible, key=lambda name: self._rank(pod, name), default=None)
        if first != node:
            said = f"accepts {sorted(feasible)}, so {first} comes first" if feasible else f"refuses: {answer}"
            self._tell(pod, f"placed on {node}", said)
            return False
        assert answer == node, f"{pod.key}: {answer}"
        self.outcome.placed += 1
        return True

    def _answer(self, pod):
        """The node it is bound to, or why it is not; None if that is open."""
        found = self.api.get(self._path(pod)).expect()
        if found["spec"].get("nodeName"):
            return found["spec"]["nodeName"]
        if pod.spec.volumes:
            stage.provision(self.api)
        return next(
            (
                each["message"]
                for each in found["status"].get("conditions", [])
                if each["type"] == "PodScheduled" and each["reason"] in {"Unschedulable", "SchedulerError"}
            ),
            None,
        )

    def _rank(self, pod, name):
        taints = self._node(name).taints
        soft = [taint for taint in taints if taint.effect == PREFER_NO_SCHEDULE]
        return untolerated(pod.spec.tolerations, soft) is not None, name

    def _node(self, name):
        return next(node for node in self.snapshot.nodes if node.name == name)

    # -- refused pods

    def _refuse(self, pods):
        for pod in pods:
            self._release(pod)
        answers = {
            pod.key: eventually(lambda pod=pod: self._answer(pod), f"{pod.key} is decided", ANSWERS_WITHIN, every=0.01)
            for pod in pods
        }
        for pod in pods:
            feasible = self.witness.feasible(pod.metadata.uid)
            bound = self.api.get(self._path(pod)).expect()["spec"].get("nodeName")
            if feasible or bound:
                reason = message(self.placement.refusals[pod.key])
                self._tell(pod, f"refused: {reason}", f"accepts {sorted(feasible or {bound})} ({answers[pod.key]})")
            else:
                self.outcome.refused += 1

    def _release(self, pod):
        self.api.patch(self._path(pod), {"spec": {"schedulingGates": None}}).expect()

    def _path(self, pod):
        return f"/api/v1/namespaces/{pod.metadata.namespace}/pods/{pod.metadata.name}"

    # -- stories

    def _tell(self, pod, solver, scheduler):
        manifest = next(each for each in self.case.waiting if each["metadata"]["name"] == pod.metadata.name)
        lines = [f"--- {self.case.name}, pod {pod.key}", f"solver:    {solver}", f"scheduler: {scheduler}"]
        lines.append(f"pod: {brief(manifest)}")
        lines += [f"node {brief(node)}" for node in self.case.nodes]
        lines += [f"resident {brief(each)}" for each in self.case.bound_pods]
        for key, node in self.placement.node_by_pod.items():
            if key == pod.key:
                break
            lines.append(f"placed before on {node}: {brief(self._manifest(key))}")
        lines += [f"storage {brief(each)}" for _, each in self.case.storage] if manifest["spec"]["volumes"] else []
        self.outcome.stories.append("\n".join(lines))

    def _manifest(self, key):
        return next(each for each in self.case.waiting if each["metadata"]["name"] == key.name)


def brief(manifest):
    """A manifest in one line, without what is empty."""
    return json.dumps({key: _full(manifest[key]) for key in manifest if _full(manifest[key])})


def _full(value):
    if isinstance(value, dict):
        return {key: _full(each) for key, each in value.items() if each not in ([], {}, None)}
    return [_full(each) for each in value] if isinstance(value, list) else value
