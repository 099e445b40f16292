"""Gives claims and nodes made by older versions the label that marks them as this provider's."""

from dovetail.controllers.context import ControllerContext
from dovetail.model.kube_object import Key
from dovetail.model.node import Node
from dovetail.model.nodeclaim import NodeClaim
from dovetail.runtime.reconciler import Reconciler


class Hydration:
    """Adds `<node class group>/<kind>` where it is missing."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self.reconciler: Reconciler[Key] = Reconciler("nodeclaim.hydration", self.reconcile)
        context.state.claims.listen(self._claim_changed)
        context.state.nodes.listen(self._node_changed)

    def _claim_changed(self, before: NodeClaim | None, after: NodeClaim | None) -> None:
        if before is None and after is not None:
            self.reconciler.add(after.key)

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        if before is None and after is not None:
            for claim in self._context.state.claims_of(after):
                self.reconciler.add(claim.key)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._context.state.synced()
        await self.reconciler.run()

    async def reconcile(self, key: Key) -> float | None:
        """Label one claim and its node."""
        claim = self._context.state.claims.items.get(key)
        if claim is None or claim.deleting or not self._context.manages(claim):
            return None
        ref = claim.spec.node_class_ref
        wanted = {"metadata": {"labels": {ref.label: ref.name}}}
        if ref.label not in claim.metadata.labels:
            await self._context.patch_claim(claim, wanted)
        for node in self._context.state.nodes_of(claim):
            if ref.label not in node.metadata.labels:
                await self._context.patch_node(node, wanted)
        return None
