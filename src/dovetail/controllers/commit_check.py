"""Asks right before the nodes of a command are deleted whether it still holds, by what the API server says.

The caches may be late, silent or simply minutes old. Nodes, their pods, PodDisruptionBudgets, NodePools and the
ConfigMap that pauses are read with quorum; what keeps a node is decided in `core.disruption.recheck`.
"""

from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace

from dovetail.controllers.context import ControllerContext
from dovetail.controllers.instance_types import find_catalogs
from dovetail.core.disruption.pass_context import PassContext as Pass
from dovetail.core.disruption.recheck import find_obstacles
from dovetail.model.cluster_objects import PodDisruptionBudget
from dovetail.model.command import CommandState
from dovetail.model.kinds import CONFIG_MAP, NODE, NODE_POOL, POD, POD_DISRUPTION_BUDGET
from dovetail.model.node import Node
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.pod import Pod
from dovetail.model.refusal import Refusal, RefusalCode, node_ref
from dovetail.model.snapshot import ClusterNode, Snapshot
from dovetail.model.unreadable_objects import completed, unread
from dovetail.ports.cluster import Listing
from dovetail.ports.errors import NotFound
from dovetail.runtime.concurrency import for_each

_Fresh = dict[str, tuple[Node, Listing[Pod]]]
"""Nodes and their pods as the API server has them, by node name."""


class CommitCheck:
    """The last look before the point of no return."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    async def find_obstacles(
        self, state: CommandState, planned_pods: Collection[str] | None = None
    ) -> dict[str, Refusal]:
        """What keeps candidates of a command, by NodeClaim name. Raises where the API server does not answer."""
        context = self._context
        context.state.observe_all(NODE_POOL, await context.cluster.list(NODE_POOL))
        switch = await context.cluster.list(CONFIG_MAP, context.state.switch.options)
        context.state.observe_all(CONFIG_MAP, switch)
        pdbs = await context.cluster.list(POD_DISRUPTION_BUDGET)
        fresh: _Fresh = {}

        async def read(claim: NodeClaim) -> None:
            for known in context.state.nodes_of(claim):
                with suppress(NotFound):  # gone already; its claim follows
                    node = context.state.observe(NODE, await context.cluster.get(NODE, known.key))
                    fresh[node.name] = node, await context.read_pods(node.name)

        await for_each(read, state.candidates)
        look = Pass(await self._snapshot(fresh, pdbs), context.options)
        found = find_obstacles(state, look, planned_pods)
        for claim in state.candidates:
            for node in context.state.nodes_of(claim):
                for bad in fresh[node.name][1].unreadable if node.name in fresh else ():
                    odd = str(unread(POD, bad))
                    found[claim.name] = Refusal(RefusalCode.UNREADABLE, node_ref(node.name), detail=odd)
        return found

    async def is_unused(self, claim: NodeClaim) -> bool:
        """Whether a replacement has no pod that would have to move if it were deleted."""
        if not claim.status.node_name:
            return True
        pods = await self._context.read_pods(claim.status.node_name)
        return not pods.unreadable and not any(pod.reschedulable for pod in pods.items)

    async def _snapshot(self, fresh: _Fresh, pdbs: Listing[PodDisruptionBudget]) -> Snapshot:
        """The cached cluster, with what was just read in place of what the cache says."""
        context = self._context
        catalogs = await find_catalogs(context.cloud, context.state.nodepools.items.values())
        cached = context.state.snapshot(context.clock.now(), catalogs)
        nodes = [_refreshed(node, fresh) for node in cached.nodes]
        known = completed(POD_DISRUPTION_BUDGET, sorted(pdbs.items, key=lambda pdb: pdb.key), pdbs.unreadable)
        return replace(cached, nodes=tuple(nodes), pdbs=known)


def _refreshed(cached: ClusterNode, fresh: _Fresh) -> ClusterNode:
    if cached.node is None or cached.node.name not in fresh:
        return cached
    node, pods = fresh[cached.node.name]
    return replace(cached, node=node, pods=pods.items)
