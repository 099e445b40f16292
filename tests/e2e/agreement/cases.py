"""A random cluster with pods to place, as the manifests that make it. The same seed gives the same manifests."""

from dataclasses import dataclass
from random import Random

from e2e.agreement.disks import leaving_claims, some_storage
from e2e.agreement.nodes import some_node
from e2e.agreement.pods import bound_pod, replica, some_workload
from e2e.agreement.words import THEMES
from reference.chance.dice import Dice


@dataclass(frozen=True)
class Case:
    """Nodes, what is on them, and the pods in question. `storage` is (path, manifest) in order of creation."""

    name: str
    nodes: list
    storage: list
    bound_pods: list
    ended: frozenset  # names of residents that have run to their end
    waiting: list
    deleted: tuple = ()  # paths of what is on its way out


def random_case(seed):
    random = Random(seed)  # noqa: S311 - a reproducible cluster, no secret
    themes = frozenset(random.sample(THEMES, random.choice((1, 2, 2, 3))))
    dice = Dice(random, themes=themes)
    nodes = [some_node(dice, dice.name(f"n{seed}")) for _ in range(dice.between(3, 7))]
    workloads = [some_workload(dice) for _ in range(dice.between(2, 4))]
    bound_pods, ended = [], set()
    for node in nodes:
        for _ in range(dice.pick((0, 0, 1, 1, 2))):
            name = dice.name("on")
            bound_pods.append(bound_pod(dice, dice.pick(workloads), name, node["metadata"]["name"]))
            if dice.maybe(0.12):
                ended.add(name)
    waiting = [replica(dice, each, dice.name("pod")) for each in workloads for _ in range(dice.between(2, 5))]
    storage = some_storage(dice, nodes)
    return Case(f"seed {seed}", nodes, storage, bound_pods, frozenset(ended), waiting, leaving_claims(storage))
