"""Node sizing: chooses the nodes for many pods at once, by price.

The solver places one pod after the other and opens a draft when none takes the next pod. Which sizes the nodes get is
then a result of the order, not of prices. Here the pods of the solver's drafts are grouped into classes, and column
generation (`core/columns`) chooses nodes for all of them together. These pods are placed into the chosen nodes first,
and the rest as always, by the same solver, which checks every constraint.

The solver's own drafts are the upper bound: the chosen nodes are used only if they place the same pods and save more
than `LEAST_SAVING`. Nodes are chosen for pods that only taints, labels and size constrain, and for each NodePool apart,
since their weights, not prices, decide between NodePools. A NodeClaim lists all types that hold its pods, however its
node was chosen.
"""

from collections.abc import Iterator, Sequence
from functools import cache, partial

from dovetail.core.cost_floor.linear_program import WITHOUT_SOLVER
from dovetail.core.provisioning.pod_classes import PodClasses
from dovetail.core.scheduling.draft import Draft, cheapest
from dovetail.core.scheduling.instance_type_table import InstanceTypeTable
from dovetail.core.scheduling.pod_shapes import PodShape
from dovetail.core.scheduling.preferences import PreferenceLevel
from dovetail.core.scheduling.problem import Problem
from dovetail.core.scheduling.purchasable import Purchasable
from dovetail.core.scheduling.single_node_fit import decided_by_size
from dovetail.core.scheduling.solver import Placement, ProposedNode, place_all

LEAST_DRAFTS = 2
"""Pods that share one node are left there."""
LEAST_PODS = 10
"""Fewer pods of a NodePool are placed one by one."""
LEAST_SHARE = 0.5
"""The least share of these pods among all pods of the NodePool's drafts: with fewer, the others decide the cost."""
LEAST_SAVING = 0.01
"""The least saving, as a share of the cost."""

NODE_COST = 0.01
"""What each node counts beyond its price, as a share of the mean price of the drafts.

Small nodes fit pods more closely, but each node also needs an address, images and a kubelet.
"""


WITHOUT_HIGHS = WITHOUT_SOLVER and "node sizes are not chosen by price without HiGHS: pip install 'dovetail[highs]'"
"""Why nodes are not chosen by price in this installation; empty if they are."""


def place_by_price(problem: Problem, *, respect_preferences: bool) -> Placement:
    """Place all pods, on chosen nodes where these cost less."""
    placed = place_all(problem, respect_preferences=respect_preferences)
    if WITHOUT_HIGHS or len(placed.drafts) < LEAST_DRAFTS:
        return placed
    proposed = [*choose_nodes(problem, placed.drafts, respect_preferences=respect_preferences)]
    if not proposed:
        return placed
    chosen = place_all(problem, respect_preferences=respect_preferences, proposed=proposed)
    most = (1 - LEAST_SAVING) * sum(map(cheapest, placed.drafts))
    if chosen.refusals.keys() <= placed.refusals.keys() and sum(map(cheapest, chosen.drafts)) < most:
        return chosen
    return placed


def choose_nodes(problem: Problem, drafts: Sequence[Draft], *, respect_preferences: bool) -> Iterator[ProposedNode]:
    """Nodes for the pods of these drafts that only taints, labels and size constrain."""
    level = cache(partial(only_level, problem, respect_preferences))
    by_table: dict[InstanceTypeTable, list[Draft]] = {}
    for draft in drafts:
        by_table.setdefault(draft.options.type_table, []).append(draft)
    for type_table, each in by_table.items():
        pods = [[entry for entry in zip(draft.pods, draft.shapes, strict=True) if level(entry[1])] for draft in each]
        if sum(map(len, pods)) >= max(LEAST_PODS, LEAST_SHARE * sum(len(draft.pods) for draft in each)):
            left = Purchasable(problem).root(type_table)
            classes = PodClasses(problem.root(type_table) if isinstance(left, str) else left, level)
            for entries in pods:
                classes.add(entries)
            yield from classes.nodes(NODE_COST * sum(map(cheapest, each)) / len(each))


def only_level(problem: Problem, respect_preferences: bool, shape: PodShape) -> PreferenceLevel | None:
    """The only preference level of a shape that taints, labels and size alone constrain; None for others."""
    constraints, soft_taints = shape.constraints, problem.soft_taints
    levels = constraints.preference_levels(respect_preferences=respect_preferences, soft_taints=soft_taints)
    return decided_by_size(constraints, levels)
