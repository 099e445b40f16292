"""The Balanced policy: a move must save its pool at least half as large a share as it disrupts."""

from dataclasses import dataclass

from dovetail.core.disruption.command import Command
from dovetail.core.disruption.disruption_cost import disruption_cost
from dovetail.core.disruption.pass_context import PassContext
from dovetail.model.nodepool import NodePool

THRESHOLD = 0.5
BALANCED = "Balanced"


def approves(command: Command, context: PassContext) -> bool:
    """Whether every Balanced pool in the command finds it worth it. Other pools are always fine with it."""
    pools = {each.pool.name: each.pool for each in command.candidates}
    return all(
        pool.consolidation_policy != BALANCED or score(command, pool, context) >= THRESHOLD for pool in pools.values()
    )


def score(command: Command, pool: NodePool, context: PassContext) -> float:
    """The share of the pool's cost that is saved, over the share of its disruption that is caused."""
    return weigh(command, pool, context).score


@dataclass(frozen=True, slots=True)
class Balance:
    """Which share of a pool's cost a move saves, and which share of its disruption it causes."""

    saved: float
    disrupted: float

    @property
    def score(self) -> float:
        """How much is saved for what is disrupted; nothing saved scores nothing."""
        return self.saved / self.disrupted if self.saved > 0 and self.disrupted > 0 else 0.0


NOTHING = Balance(0.0, 0.0)


def weigh(command: Command, pool: NodePool, context: PassContext) -> Balance:
    """What a command comes to for one of its pools."""
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
