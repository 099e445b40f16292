"""Finds nodes that consolidation keeps only because of the preferences of their pods.

Launches respect preferences such as a preferred anti-affinity, so consolidation respects them, too; otherwise it would
undo launches. A preference can therefore keep a node that its pods could do without. A second simulation that ignores
preferences shows whether it does, so that the event is published only where it is true.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from dovetail.core.disruption.candidates import Candidate
from dovetail.core.disruption.methods.single_node import is_removable
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.scheduling.preferences import preferences
from dovetail.model.pod import Pod
from dovetail.model.refusal import Refusal, RefusalCode, node_ref

PREVENTED = frozenset({RefusalCode.CANT_REPLACE, RefusalCode.UNSCHEDULABLE})
"""Codes of single-node consolidation that a preference can cause."""
_KINDS = {
    "pod_anti_affinity": "anti-affinity",
    "spread": "topology spread",
    "pod_affinity": "affinity",
    "node_affinity": "node affinity",
}
"""The word for each field of `Preferences`, in the order in which they are named."""
_SPREADING = frozenset({"anti-affinity", "topology spread"})


@dataclass(frozen=True)
class PreferenceBlocker:
    """A node that could be consolidated without preferences, one of the pods that have any, and their kinds."""

    node: str
    pod: Pod
    kinds: tuple[str, ...]

    @property
    def refusal(self) -> Refusal:
        """Why the node stays."""
        kinds = " and a preferred ".join(self.kinds)
        return Refusal(RefusalCode.PREFERENCE, node_ref(self.node), pod=self.pod.key, detail=kinds)


def find_preference_blockers(refusals: Iterable[Refusal], context: PassContext) -> list[PreferenceBlocker]:
    """The refused nodes that stay because of preferences alone."""
    if not context.options.respect_preferences:
        return []
    names = {each.object.name for each in refusals if each.code in PREVENTED}
    candidates = context.candidates(eventual=False)[0] if names else []
    found = [(each, _find_blocker(each)) for each in candidates if each.name in names]
    blockers = [(each, blocker) for each, blocker in found if blocker is not None]
    if not blockers:
        return []
    without_preferences = PassContext(context.snapshot, replace(context.options, respect_preferences=False))
    return [blocker for each, blocker in blockers if is_removable(each, without_preferences)]


def _find_blocker(candidate: Candidate) -> PreferenceBlocker | None:
    """The pod to name: the first by name with a preferred anti-affinity or spread, else with any other preference."""
    found = [(kinds, pod) for pod in candidate.pods_to_reschedule if (kinds := _kinds(pod))]
    if not found:
        return None
    kinds, pod = min(found, key=lambda each: (not {*each[0]} & _SPREADING, each[1].key))
    return PreferenceBlocker(candidate.name, pod, kinds)


def _kinds(pod: Pod) -> tuple[str, ...]:
    spec = pod.spec
    if spec.affinity is None and not spec.topology_spread_constraints:
        return ()
    preferred = preferences(spec)
    return tuple(word for name, word in _KINDS.items() if getattr(preferred, name))
