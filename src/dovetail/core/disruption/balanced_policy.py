"""The Balanced consolidation policy: the saving must be worth the disruption.

The score of a command is the share of the NodePool's cost that it saves, divided by the share of the NodePool's
disruption cost that it causes. A command is approved if every Balanced NodePool among its candidates scores at least
`THRESHOLD`: with 0.5, a command that causes 10 % of the disruption has to save at least 5 % of the cost.
"""

from dataclasses import dataclass

from dovetail.core.disruption.command import Command
from dovetail.core.disruption.disruption_cost import disruption_cost
from dovetail.core.disruption.pass_context import PassContext
from dovetail.model.nodepool import NodePool

THRESHOLD = 0.5
BALANCED = "Balanced"


def approves(command: Command, context: PassContext) -> bool:
    """Whether the command scores high enough in each of its Balanced NodePools; other policies do not limit it."""
    pools = {each.pool.name: each.pool for each in command.candidates}
    return all(
        pool.consolidation_policy != BALANCED or score(command, pool, context) >= THRESHOLD for pool in pools.values()
    )


def score(command: Command, pool: NodePool, context: PassContext) -> float:
    """The score of a command for one of its NodePools."""
    return weigh(command, pool, context).score


@dataclass(frozen=True, slots=True)
class Balance:
    """The shares of a NodePool's cost and disruption cost that a command saves and causes."""

    saved: float
    disrupted: float

    @property
    def score(self) -> float:
        """Saving per disruption; 0 if nothing is saved."""
        return self.saved / self.disrupted if self.saved > 0 and self.disrupted > 0 else 0.0


NOTHING = Balance(0.0, 0.0)


def weigh(command: Command, pool: NodePool, context: PassContext) -> Balance:
    """Weigh a command for one of its NodePools. The saving is divided among the candidates by price."""
    nodes = context.snapshot.nodes_by_pool.get(pool.name, ())
    own = [each for each in command.candidates if each.pool.name == pool.name]
    source = sum(each.price for each in command.candidates)
    if source <= 0:
        return NOTHING
    saved = command.saving * sum(each.price for each in own) / source
    total_cost = context.pool_cost(pool.name)
    total_disruption = sum(disruption_cost(node.pods) for node in nodes)
    if saved <= 0 or total_cost <= 0 or total_disruption <= 0:
        return NOTHING
    return Balance(saved / total_cost, sum(each.cost for each in own) / total_disruption)
