"""Patches that replace a list of a Node name the version they were computed from.

A merge patch replaces lists as a whole: one that was computed from an older version takes away the taints and
finalizers that others have added since.
"""

from dovetail.sim.torture.invariants.base import Invariant
from dovetail.sim.world import ApiCall


class NodePatchesNameAVersion(Invariant):
    """Nobody's taints and finalizers are overwritten."""

    name = "patches of node lists carry a resourceVersion"

    def about_to(self, call: ApiCall) -> None:
        """A Node may be patched."""
        if call.kind != "Node" or call.patch is None or call.patch.resource_version:
            return
        body = call.patch.body
        lists = [
            name
            for part, name in (("spec", "taints"), ("metadata", "finalizers"), ("metadata", "ownerReferences"))
            if (body.get(part) or {}).get(name) is not None
        ]
        if lists and "resourceVersion" not in (body.get("metadata") or {}):
            self.broken(f"the {' and '.join(lists)} of node {call.key} are patched without a resourceVersion")
