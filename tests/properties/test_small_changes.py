"""Law: what is kept of earlier results after a small change is what a new planner finds.

Unlike in `test_planning.py` there are several equal nodes, PodDisruptionBudgets, and NodePools that share their
instance types, and most changes are of the kinds that leave some results as they are: nodes go and come, prices change.
"""

import random
from collections import Counter
from dataclasses import replace

import pytest
from msgspec import structs

from dovetail.core.disruption.planner import Planner
from dovetail.core.scheduling.draft import cheapest
from dovetail.core.scheduling.removal import Bounds
from dovetail.core.scheduling.removal_answers import RemovalAnswers
from dovetail.core.scheduling.removal_simulation import RemovalSimulation
from dovetail.core.scheduling.repricing import catalog_changes
from dovetail.model.duration import Delay
from dovetail.model.nodepool import Disruption
from dovetail.settings import DecisionOptions
from properties.answers import empty_memos
from properties.inputs import budget
from properties.test_planning import POLICIES, UNRESTRAINED, Story, told
from properties.test_shared_removals import copied
from reference.chance.dice import APPS, NAMESPACES
from reference.clusters import random_cluster

FACTORS = (0.3, 0.9, 0.99, 1.01, 1.1, 3.0)


def dearer(types, rng, *, most=2):
    """The instance types, some offerings at another price, sometimes at that of an offering of another type."""
    sold = [offering for each in types for offering in each.offerings]
    changed = {
        id(each): rng.choice((each.price * rng.choice(FACTORS), rng.choice(sold).price))
        for each in rng.sample(sold, min(len(sold), rng.randint(1, most)))
    }
    return tuple(
        replace(each, offerings=tuple(replace(one, price=changed.get(id(one), one.price)) for one in each.offerings))
        for each in types
    )


def with_other_prices(snapshot, rng, *, most=2):
    """NodePools that share their instance types go on sharing them."""
    changed = {}
    for types in snapshot.catalogs.values():
        if id(types) not in changed:
            changed[id(types)] = dearer(types, rng, most=most) if types else types
    return replace(snapshot, catalogs={pool: changed[id(types)] for pool, types in snapshot.catalogs.items()})


class SmallChanges(Story):
    """A story of a cluster with some equal nodes."""

    def __init__(self, seed):
        super().__init__(3 * seed)  # clusters of the larger size
        rng = self.rng
        pdbs = tuple(
            budget(f"{namespace}-{app}", namespace, {"app": app}, rng.choice((0, 1)))
            for namespace in NAMESPACES
            for app in APPS
            if rng.random() < 0.1
        )
        nodes = [
            twin
            for node in self.now.nodes
            if node.record is None
            for twin in (node, *(copied(node, f"{node.name}-{n}") for n in range(rng.randint(0, 3)) if node.node))
        ]
        pools = dict(self.now.nodepools)
        if rng.random() < 0.7:  # limits that nothing reaches would still forbid most updates
            pools = {
                name: structs.replace(pool, spec=structs.replace(pool.spec, limits={})) for name, pool in pools.items()
            }
        self.now = replace(self.now, nodes=tuple(nodes), pdbs=pdbs, nodepools=pools)

    def _disrupting(self, pool):
        if self.rng.random() < 0.3:
            return super()._disrupting(pool)
        at_once = Disruption(
            consolidation_policy=POLICIES[0],
            consolidate_after=Delay.parse("0s"),
            budgets=(),
            min_savings=UNRESTRAINED,
        )
        return structs.replace(pool, spec=structs.replace(pool.spec, disruption=at_once))

    def change(self):
        self.number += 1
        often = (self.node_goes, self.node_goes, self.prices_change, self.prices_change, self.twin_comes, self.comes)
        self.rng.choice((*often, self.leaves, self.is_edited, self.is_resized))()

    def prices_change(self):
        self.now = with_other_prices(self.now, self.rng)

    def twin_comes(self):
        place = self._node()
        if place is not None:
            twin = copied(self.now.nodes[place], f"{self.now.nodes[place].name}-{self.number}")
            pods = tuple(pod for pod in twin.pods if self.rng.random() < 0.7)
            self.now = replace(self.now, nodes=(*self.now.nodes, replace(twin, pods=pods)))


@pytest.fixture
def kept(monkeypatch):
    """How many results were there, and how many survived, by the method that decided it."""
    counts = Counter()

    def counted(name):
        decide = getattr(RemovalAnswers, name)

        def count(self, *args):
            counts[name, "before"] += len(self.single)
            decide(self, *args)
            counts[name, "after"] += len(self.single)

        monkeypatch.setattr(RemovalAnswers, name, count)

    counted("reprice")
    counted("forget_dependent")
    return counts


@pytest.mark.parametrize("chunk", range(6))
def test_a_planner_after_small_changes_says_what_a_new_one_says(chunk, kept):
    for seed in range(chunk * 30, chunk * 30 + 30):
        story, gates = SmallChanges(seed), DecisionOptions(spot_to_spot=seed % 2 == 0)
        planner = Planner(gates)
        for number in range(10):
            if number:
                story.change()
            remembered = told(planner.plan(story.now, thorough=True))
            with empty_memos():
                new = told(Planner(gates).plan(story.now, thorough=True))
            assert remembered == new, f"seed {seed}, change {number}"
    for name in ("reprice", "forget_dependent"):
        before, after = kept[name, "before"], kept[name, "after"]
        assert before / 5 < after < before, "a law about results that never survive, or always do, proves nothing"


def described(draft):
    """Everything that is asked of a draft, whatever the order of its table."""
    options = draft.options
    offerings = [each for each, left in zip(options.type_table.offerings, options.offerings, strict=True) if left]
    return {
        "pool": draft.pool_name,
        "pods": draft.pod_keys,
        "types": [(each.type.name, each.overhead) for each in draft.choices],
        "price": cheapest(draft),
        "requirements": options.requirements,
        "offerings": sorted((str(each.requirements), each.price) for each in offerings),
        "zones": draft.possible("topology.kubernetes.io/zone"),
        "fits": options.holds(draft.witness, draft.total) and options.prices[draft.witness] < draft.below,
    }


def results(simulation):
    """The results of a simulation as plain values."""
    found = {}
    for row in simulation.rows:
        removal = simulation.remove(row)
        drafts = [described(removal.draft)] if removal.draft is not None else []
        found[simulation.name(row)] = removal.kind, removal.price, removal.blocker, removal.limits, drafts
    for pair in zip(simulation.rows, simulation.rows[1:], strict=False):
        for bounds in (Bounds(), Bounds(below=0.3, max_drafts=1)):
            joint = simulation.remove_together(pair, bounds)
            found[pair, bounds] = joint.blocker, joint.limits, [described(each) for each in joint.drafts]
    return found


@pytest.mark.parametrize("chunk", range(4))
def test_results_after_a_change_of_prices_are_those_of_a_new_simulation(chunk, kept):
    for seed in range(chunk * 100, chunk * 100 + 100):
        case, rng = random_cluster(seed), random.Random(seed)  # noqa: S311 - not for secrets
        snapshot = replace(case.snapshot, unbound_pods=())
        simulation = RemovalSimulation(snapshot, case.pools)
        for number in range(3):
            results(simulation)
            changed = with_other_prices(snapshot, rng, most=rng.choice((1, 2, 8)))
            changes = catalog_changes(snapshot.catalogs, changed.catalogs)
            assert changes is not None
            simulation.reprice(changed, changes)
            snapshot = changed
            with empty_memos():
                assert results(simulation) == results(RemovalSimulation(snapshot, case.pools)), f"{seed}, {number}"
    assert kept["reprice", "before"] / 5 < kept["reprice", "after"] < kept["reprice", "before"]
