"""Every answer that is worked out with the help of caches, as plain values, with caches kept or with empty ones.

`Kept` is what one process keeps from one decision to the next: the state of the informers, the memos of the planner,
and the indexes of controllers. `fresh` makes one that has seen nothing but the objects as they are now.
"""

import asyncio
from collections import deque
from contextlib import contextmanager

import msgspec

from dovetail.controllers.cluster_state import ClusterState
from dovetail.controllers.context import ControllerContext
from dovetail.controllers.disruption_queue import DisruptionQueue
from dovetail.controllers.interruption import InterruptionController
from dovetail.controllers.nodepools import NodePoolController
from dovetail.core.disruption.methods import METHODS
from dovetail.core.disruption.pass_context import PassContext as Pass
from dovetail.core.disruption.pass_context import next_wakeup
from dovetail.core.disruption.planner import consider, plan_pass
from dovetail.core.disruption.simulation_cache import SimulationCache
from dovetail.core.disruption.validation import VALIDATED, revalidate
from dovetail.core.explain.drain import explain_drain
from dovetail.core.lifecycle.nodepool_status import count
from dovetail.core.provisioning.plan import plan_provisioning
from dovetail.core.scheduling import catalog_table, instance_type_table
from dovetail.core.scheduling.draft import cheapest
from dovetail.core.scheduling.nodepool_limits import limit_usage
from dovetail.core.scheduling.pod_shapes import PodIndex
from dovetail.core.scheduling.removal import Bounds
from dovetail.dashboard.nodes import NodeSummaries
from dovetail.manifest.codec import encode_hook
from dovetail.model.conditions import without
from dovetail.model.kinds import CONFIG_MAP
from dovetail.model.nodeclaim import CONSOLIDATABLE
from dovetail.model.refusal import Refusal
from dovetail.ports.cluster import Listing
from dovetail.settings import Settings
from properties.inputs import edited

ENCODER = msgspec.json.Encoder(enc_hook=encode_hook, order="deterministic")


class Lists:
    """The part of the cluster that informers ask for a list."""

    def __init__(self, inputs):
        self._inputs = inputs

    async def list(self, kind, _options):
        inputs = self._inputs
        unreadable = tuple(inputs.unreadable[kind.name].values())
        return Listing(tuple(inputs.objects[kind.name].values()), str(inputs.version), unreadable)


class Kept:
    """What a process keeps. Make it inside a running loop."""

    def __init__(self, inputs):
        self.state = ClusterState(Lists(inputs), inputs.well_known)
        context = ControllerContext(
            cluster=None, cloud=None, clock=None, recorder=None, state=self.state, settings=Settings(), seen=False
        )
        self.nodepools, self.disruption_queue = NodePoolController(context), DisruptionQueue(context)
        self.interruptions = InterruptionController(context)
        self.simulations = SimulationCache()
        self.register, self.tiles = PodIndex(), NodeSummaries()
        self._log = []

    def informer(self, kind):
        """The local copy of a kind."""
        return self.state.switch if kind is CONFIG_MAP else self.state._informer_by_kind[kind.name]

    async def relist(self, kinds=None):
        """List everything of some kinds, or of all."""
        for informer in (*self.state.informers, self.state.switch):
            if kinds is None or informer.kind.name in kinds:
                await informer._relist(asyncio.get_running_loop())

    async def follow(self, events, rng):
        """Hear of changes: by watch, by the answer to an own write and then by watch, by a list, or once more."""
        way = rng.choice(("watch", "watch", "watch", "own write", "list", "again"))
        if way == "list":
            await self.relist({kind.name for kind, _ in events})
            self._log.clear()
            return
        for kind, change in events:
            if way == "own write" and change.type != "DELETED":
                self.informer(kind).observe(change.object)
            self.informer(kind)._apply(change)
        self._log = [*self._log, *events][-6:]
        if way == "again":  # a watch that is resumed from before
            for kind, change in self._log:
                self.informer(kind)._apply(change)

    def snapshot(self, inputs):
        """The cluster as this process sees it."""
        for name, until in inputs.nominations.items():
            self.state.nominate(name, until)
        return self.state.snapshot(inputs.at, dict(inputs.catalogs))


async def fresh(inputs):
    """A process that has just started: it has listed everything and worked out nothing."""
    made = Kept(inputs)
    await made.relist()
    return made


@contextmanager
def empty_memos():
    """Work with empty module-level memos, and put the full ones back afterwards; those of texts are keyed by value."""
    opened, instance_type_table._RECENT_TABLES = instance_type_table._RECENT_TABLES, deque(maxlen=64)
    catalogs, catalog_table._RECENT_CATALOGS = catalog_table._RECENT_CATALOGS, deque(maxlen=8)
    try:
        yield
    finally:
        instance_type_table._RECENT_TABLES = opened
        catalog_table._RECENT_CATALOGS = catalogs


def plain(value):
    """A value as JSON, so that what differs can be read."""
    return ENCODER.encode(value).decode()


def drafted(draft):
    return draft.pool_name, sorted(draft.type_names), list(map(str, draft.pod_keys)), round(cheapest(draft), 9)


def commanded(command):
    """A command."""
    if isinstance(command, Refusal):
        return command
    candidates = [(each.name, each.price, each.cost, each.weight) for each in command.candidates]
    return str(command), command.reason, candidates, [drafted(each) for each in command.replacements]


def as_candidate(candidate):
    facts = (candidate.price, candidate.cost, candidate.weight, candidate.order, candidate.capacity_type)
    pods = [str(pod.key) for pod in candidate.pods_to_reschedule]
    kind = candidate.instance_type.name if candidate.instance_type is not None else None
    return candidate.name, candidate.pool.spec, facts, pods, kind


def removals(removal_simulation):
    """What would come of the removal of each node, and of each with the next one."""
    found = {}
    for row in removal_simulation.rows:
        one = removal_simulation.remove(row)
        draft = drafted(one.draft) if one.draft is not None else None
        found[removal_simulation.name(row)] = (
            one.kind,
            one.price,
            one.blocker and str(one.blocker.key),
            draft,
            one.limits,
        )
    for pair in zip(removal_simulation.rows, removal_simulation.rows[1:], strict=False):
        both = removal_simulation.remove_together(pair, Bounds())
        blocker = both.blocker and str(both.blocker.key)
        found[tuple(map(removal_simulation.name, pair))] = blocker, list(map(drafted, both.drafts)), both.limits
    return found


def disruption_of(kept, snapshot, inputs, earlier):
    """A whole pass, and what it proposes. With `earlier`, also what comes of that at a second look.

    A whole pass also plans on clusters that might be; afterwards simulations of the real one begin anew. So most
    stories ask the methods alone.
    """
    look = Pass(snapshot, inputs.gates, inputs.backing_off, kept.simulations)
    proposals = {method.name: consider(method, look) for method in METHODS}
    proposed = [each for made in proposals.values() for each in made.commands if each.reason in VALIDATED]
    again = Pass(snapshot, inputs.gates, inputs.backing_off, kept.simulations)
    plan = plan_pass(again, thorough=True) if earlier is not None else None
    allowed = {
        (pool, each.reason): look.allowance(pool, each.reason) for pool in snapshot.nodepools for each in METHODS
    }
    answer = {
        "commands": {name: list(map(commanded, made.commands)) for name, made in proposals.items()},
        "removals": {
            consolidating: removals(look.removal_simulation(consolidating=consolidating))
            for consolidating in (True, False)
        },
        "refused": {name: sorted(map(plain, made.refusals)) for name, made in proposals.items()},
        "allowances": {key: (each.limit, each.disrupting, each.fault) for key, each in allowed.items()},
        "plan": plan and (list(map(commanded, plan.commands)), plain(plan.refusals_by_method)),
        "candidates": [
            sorted(map(as_candidate, look.candidates(eventual=eventual)[0]), key=lambda each: each[0])
            for eventual in (False, True)
        ],
        "drains": {
            each.name: [(str(view.pod.key), view.state, view.why, view.since, view.until) for view in found.pods]
            for each in snapshot.nodes
            if (found := explain_drain(each, snapshot.pdbs, snapshot.at))
        },
        "turn": next_wakeup(snapshot, inputs.backing_off),
        "second look": [commanded(revalidate(each, again)) for each in earlier or ()],
    }
    return answer, proposed


def provisioning_of(kept, snapshot, inputs):
    """What is launched for pods that wait."""
    found = plan_provisioning(snapshot, inputs.gates, register=kept.register)
    return {
        "launched": [(plain(each.claim), [str(pod.key) for pod in each.pods]) for each in found.launches],
        "placed": found.node_by_pod,
        "unplaced": [*map(plain, found.refusals), *map(plain, found.pool_refusals)],
        "limits": {pool: limit_usage(snapshot, pool) for pool in snapshot.nodepools},
    }


def state_of(kept, snapshot):
    """The indexes of the informers and controllers."""
    state = kept.state
    nodes, claims = sorted(state.nodes.items.items()), sorted(state.claims.items.items())
    pools = sorted({*snapshot.nodepools, *(claim.nodepool_name for _, claim in claims)} - {""})
    return {
        "nodes": [_decisive(each) for each in snapshot.nodes],
        "others": [getattr(snapshot, name) for name in ("unbound_pods", "nodepools", "daemon_sets", "storage")],
        "more": [getattr(snapshot, name) for name in ("namespaces", "pdbs", "nominated", "pause", "unreadable")],
        "pods by node": {key.name: [str(pod.key) for pod in state.pods_on(key.name)] for key, _ in nodes},
        "attachments": {key.name: state.attachments_of(key.name) for key, _ in nodes},
        "claims by node": {key.name: state.claims_of(node) for key, node in nodes},
        "nodes by claim": {key.name: state.nodes_of(claim) for key, claim in claims},
        "counts": {pool: _counted(kept.nodepools._usage(pool)) for pool in pools},
        "indexed commands": (
            dict(sorted(kept.disruption_queue._disrupted_claims.items())),
            sorted(kept.disruption_queue._tainted_nodes),
        ),
        "instances": {name: sorted(keys) for name, keys in sorted(kept.interruptions._claims_by_instance.items())},
        "tiles": kept.tiles.of(snapshot, {}),
    }


def _counted(usage):
    return {name: amount.nano for name, amount in sorted(usage.resources.items())}, usage.nodes


def counted_anew(snapshot):
    """What each NodePool has, counted over the nodes as everybody else sees them."""
    return {
        pool: {name: amount.nano for name, amount in sorted(count(nodes)[0].items())}
        for pool, nodes in snapshot.nodes_by_pool.items()
    }


def _decisive(node):
    """A node without what only people read: the claim may be an older version that differs in that alone."""
    claim = node.claim
    if claim is not None:
        claim = edited(claim, "status.conditions", without(claim.status.conditions, CONSOLIDATABLE))
        claim = edited(claim, "metadata.resource_version", "")
    return node.node, claim, node.pods
