"""Every answer that is worked out with the help of caches, as plain values, with caches kept or with empty ones.

`Kept` is what one process keeps from one decision to the next: the state of the informers, the memos of the planner,
and the indexes of controllers. `fresh` makes one that has seen nothing but the objects as they are now.
"""

import asyncio
import sys
from collections import deque
from contextlib import contextmanager

import msgspec

from dovetail.controllers.context import Context
from dovetail.controllers.executor import Executor
from dovetail.controllers.interruption import Interruptions
from dovetail.controllers.nodepools import NodePools
from dovetail.controllers.state import ClusterState
from dovetail.core.disruption.ahead import plan_beside
from dovetail.core.disruption.command import cheapest
from dovetail.core.disruption.context import Context as Pass
from dovetail.core.disruption.facts import FactBook
from dovetail.core.disruption.methods.single_node import SingleNode
from dovetail.core.disruption.planner import plan_pass
from dovetail.core.disruption.simulations import Simulations
from dovetail.core.disruption.turning import Turns, next_turn
from dovetail.core.disruption.validation import VALIDATED, revalidate
from dovetail.core.lifecycle.pools import count
from dovetail.core.provisioning.plan import plan_provisioning
from dovetail.core.scheduling import market
from dovetail.core.scheduling.limits import limit_usage
from dovetail.core.scheduling.register import Register
from dovetail.dashboard.tiles import Tiles
from dovetail.manifest.codec import encode_hook
from dovetail.model.conditions import without
from dovetail.model.kinds import CONFIG_MAP
from dovetail.model.nodeclaim import CONSOLIDATABLE
from dovetail.model.recent import Recent
from dovetail.model.refusal import Refusal
from dovetail.ports.cluster import Listing
from dovetail.settings import Settings
from properties.inputs import edited

ENCODER = msgspec.json.Encoder(enc_hook=encode_hook, order="deterministic")


class Lists:
    """The part of the cluster that informers ask for a list."""

    def __init__(self, inputs):
        self._inputs = inputs

    async def list(self, kind, options):
        inputs = self._inputs
        unreadable = tuple(inputs.unreadable[kind.name].values())
        return Listing(tuple(inputs.objects[kind.name].values()), str(inputs.version), unreadable)


class Kept:
    """What a process keeps. Make it inside a running loop."""

    def __init__(self, inputs):
        self.state = ClusterState(Lists(inputs), inputs.well_known)
        context = Context(
            cluster=None, cloud=None, clock=None, recorder=None, state=self.state, settings=Settings(), seen=False
        )
        self.nodepools, self.executor = NodePools(context), Executor(context)
        self.interruptions = Interruptions(context)
        self.simulations, self.book, self.turns = Simulations(), FactBook(), Turns()
        self.register, self.tiles = Register(), Tiles()
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
    """Work with empty module-level memos, and put the full ones back afterwards."""
    recents = {id(each): each for each in _module_level(Recent)}.values()
    kept, opened = [(each, each._kept) for each in recents], market._OPENED
    for each in recents:
        each._kept = deque(maxlen=64)
    market._OPENED = deque(maxlen=64)
    try:
        yield
    finally:
        market._OPENED = opened
        for each, known in kept:
            each._kept = known


def _module_level(wanted):
    modules = [module for name, module in sys.modules.items() if name.startswith("dovetail")]
    return [each for module in modules for each in vars(module).values() if isinstance(each, wanted)]


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
    pods = [str(pod.key) for pod in candidate.moving]
    kind = candidate.instance_type.name if candidate.instance_type is not None else None
    return candidate.name, candidate.pool.spec, facts, pods, kind


def disruption_of(kept, snapshot, inputs, earlier):
    """A whole pass, and a second look at what an earlier pass proposed. Also returns what this one proposes."""
    look = Pass(snapshot, inputs.gates, inputs.backing_off, kept.simulations, kept.book)
    plan = plan_pass(look, thorough=True)
    commands = {name: list(map(commanded, made)) for name, made in plan.commands_by_method.items()}
    single = plan.commands_by_method.get(SingleNode.name, ())
    beside = [commanded(each) for each in plan_beside(SingleNode(), single, look, 3)]
    proposed = [each for made in plan.commands_by_method.values() for each in made if each.reason in VALIDATED]
    again = Pass(snapshot, inputs.gates, inputs.backing_off, kept.simulations, kept.book)
    answer = {
        "commands": commands,
        "refused": {name: sorted(map(plain, said)) for name, said in plan.refusals_by_method.items()},
        "allowances": {key: (each.limit, each.disrupting, each.fault) for key, each in plan.allowances.items()},
        "beside": beside,
        "candidates": [
            sorted(map(as_candidate, look.candidates(eventual=eventual)[0]), key=lambda each: each[0])
            for eventual in (False, True)
        ],
        "turn": next_turn(snapshot, inputs.backing_off, kept.turns),
        "second look": [commanded(revalidate(each, again)) for each in earlier],
    }
    return answer, proposed


def provisioning_of(kept, snapshot, inputs):
    """What is launched for pods that wait."""
    found = plan_provisioning(
        snapshot, respect_preferences=inputs.gates.respect_preferences, register=kept.register
    )
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
        "counts": {pool: _counted(kept.nodepools._tally(pool)) for pool in pools},
        "indexed commands": (dict(sorted(kept.executor._concerned.items())), sorted(kept.executor._tainted)),
        "instances": {name: sorted(keys) for name, keys in sorted(kept.interruptions._claims.items())},
        "tiles": kept.tiles.of(snapshot, {}),
    }


def _counted(tally):
    return {name: amount.nano for name, amount in sorted(tally.resources.items())}, tally.nodes


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
