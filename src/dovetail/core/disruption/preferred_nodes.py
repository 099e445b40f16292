"""Nodes that consolidation keeps only because of what their pods prefer.

A pod's preferences are held at launch, so consolidation holds them, too; otherwise it would undo launches. A preferred
anti-affinity can therefore keep a node that kube-scheduler could do without. Whether it does is found by asking once
more with preferences left aside, so that it is said only where it is true.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from dovetail.core.disruption.candidates import Candidate
from dovetail.core.disruption.methods.single_node import could_go
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.scheduling.preferences import preferences
from dovetail.model.pod import Pod
from dovetail.model.refusal import Refusal, RefusalCode, node_ref

PREVENTED = frozenset({RefusalCode.CANT_REPLACE, RefusalCode.UNSCHEDULABLE})
"""What single-node consolidation says of a node when its simulation finds no better place for the pods."""
_KINDS = {"far": "anti-affinity", "spread": "topology spread", "near": "affinity", "nodes": "node affinity"}
_SPREADING = frozenset({"anti-affinity", "topology spread"})


@dataclass(frozen=True)
class PreferenceBlocker:
    """A node that could be consolidated without the preferences of its pods, one of them, and what that prefers."""

    node: str
    pod: Pod
    kinds: tuple[str, ...]

    @property
    def refusal(self) -> Refusal:
        """Why the node stays."""
        held = " and a preferred ".join(self.kinds)
        return Refusal(RefusalCode.PREFERENCE, node_ref(self.node), pod=self.pod.key, detail=held)


def find_preferring(refusals: Iterable[Refusal], context: PassContext) -> list[PreferenceBlocker]:
    """Those of the refused nodes that stay because of preferences alone."""
    if not context.options.respect_preferences:
        return []
    names = {each.object.name for each in refusals if each.code in PREVENTED}
    candidates = context.candidates(eventual=False)[0] if names else []
    found = [(each, _prefers(each)) for each in candidates if each.name in names]
    asked = [(each, held) for each, held in found if held is not None]
    if not asked:
        return []
    free = PassContext(context.snapshot, replace(context.options, respect_preferences=False))
    return [held for each, held in asked if could_go(each, free)]


def _prefers(candidate: Candidate) -> PreferenceBlocker | None:
    """The pod to name: the first one by name with an anti-affinity or a spread, else with any other preference."""
    found = [(kinds, pod) for pod in candidate.pods_to_reschedule if (kinds := _kinds(pod))]
    if not found:
        return None
    kinds, pod = min(found, key=lambda each: (not {*each[0]} & _SPREADING, each[1].key))
    return PreferenceBlocker(candidate.name, pod, kinds)


def _kinds(pod: Pod) -> tuple[str, ...]:
    spec = pod.spec
    if spec.affinity is None and not spec.topology_spread_constraints:
        return ()
    held = preferences(spec)
    return tuple(word for name, word in _KINDS.items() if getattr(held, name))
