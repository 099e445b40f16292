"""Random changes of everything but pods, nodes and NodeClaims. Each returns whether it found something to change."""

import copy
from dataclasses import replace
from datetime import timedelta

from dovetail.model.budget import BudgetSpec
from dovetail.model.duration import Delay, Duration
from dovetail.model.kinds import (
    CSI_NODE,
    DAEMON_SET,
    NAMESPACE,
    NODE,
    NODE_POOL,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_DISRUPTION_BUDGET,
    STORAGE_CLASS,
    VOLUME_ATTACHMENT,
)
from dovetail.model.kube_object import Condition, LabelSelector, ObjectMeta
from dovetail.model.labels import ZONE
from dovetail.model.nodepool import ActionControls
from dovetail.model.pause import PAUSE
from dovetail.model.pod import ClaimVolume, NodeSelector, NodeSelectorTerm, Volume
from dovetail.model.storage import VolumeAttachment, VolumeAttachmentSpec, VolumeNodeAffinity
from dovetail.model.taints import Toleration
from properties.inputs import SPANS, budget, change, csi_node, edited, renamed
from reference.chance.catalog import TAINTS, amounts, expression, requirement
from reference.chance.dice import APPS, DRIVER, RACK, TEAM, ZONES, throw
from reference.chance.disks import CLAIMS
from reference.chance.workloads import some_daemon_sets

READY = Condition(type="Ready", status="True")

# -- NodePools


@change("pool requirements")
def require(inputs):
    rng = inputs.rng
    chosen = rng.choice(
        (
            (),
            (requirement(ZONE, "In", rng.choice(ZONES)),),
            (requirement(RACK, "NotIn", "r1"),),
            (requirement("karpenter.sh/capacity-type", "In", "on-demand"),),
        )
    )
    return inputs.edit(NODE_POOL, "spec.template.spec.requirements", lambda _: chosen)


@change("pool taints")
def taint_pool(inputs):
    chosen = inputs.rng.choice(((), *((each,) for each in TAINTS)))
    return inputs.edit(NODE_POOL, "spec.template.spec.taints", lambda _: chosen)


@change("pool template labels")
def label_template(inputs):
    chosen = inputs.rng.choice(({}, {TEAM: "red"}, {TEAM: "blue"}))
    return inputs.edit(NODE_POOL, "spec.template.metadata.labels", lambda _: chosen)


@change("pool template annotations")
def annotate_template(inputs):
    chosen = inputs.rng.choice(({}, {"example.com/note": "1"}))
    return inputs.edit(NODE_POOL, "spec.template.metadata.annotations", lambda _: chosen)


@change("pool weight")
def weigh(inputs):
    return inputs.edit(NODE_POOL, "spec.weight", lambda _: inputs.rng.choice((None, 1, 10, 100)))


@change("pool limits")
def limit(inputs):
    chosen = inputs.rng.choice(({}, amounts(cpu="3"), amounts(nodes="1"), amounts(cpu="20", memory="40Gi")))
    return inputs.edit(NODE_POOL, "spec.limits", lambda _: chosen)


@change("pool disruption")
def disrupt(inputs):
    return inputs.edit(NODE_POOL, "spec.disruption", lambda _: inputs.disruption())


@change("pool consolidateAfter")
def consolidate_after(inputs):
    span = Delay.parse(inputs.rng.choice(SPANS))
    return inputs.edit(NODE_POOL, "spec.disruption.consolidate_after", lambda _: span)


@change("pool budgets")
def allow(inputs):
    window = BudgetSpec(nodes="0", schedule="0 12 * * *", duration=Duration.parse("1h"))
    chosen = inputs.rng.choice(((), (BudgetSpec(nodes="0"),), (BudgetSpec(nodes="1"),), (window,)))
    return inputs.edit(NODE_POOL, "spec.disruption.budgets", lambda _: chosen)


@change("pool action controls")
def control(inputs):
    after = ActionControls(disrupt_after=Delay.parse(inputs.rng.choice(("10s", "1h", "Never"))))
    action = inputs.rng.choice(("Drift", "Emptiness", "Consolidation", "Expiration"))
    return inputs.edit(NODE_POOL, "spec.disruption.action_controls", lambda _: {action: after})


@change("pool annotations")
def pause_pool(inputs):
    chosen = inputs.rng.choice(({PAUSE: "true"}, {PAUSE: (inputs.at + timedelta(minutes=1)).isoformat()}, {}, {}))
    return inputs.edit(NODE_POOL, "metadata.annotations", lambda _: chosen)


@change("pool readiness")
def ready_pool(inputs):
    chosen = inputs.rng.choice((READY, READY, edited(READY, "status", "False")))
    return inputs.edit(NODE_POOL, "status.conditions", lambda _: (chosen,))


@change("pool replicas")
def fix_size(inputs):
    return inputs.edit(NODE_POOL, "spec.replicas", lambda _: inputs.rng.choice((None, None, 2)))


@change("pool counts")
def count_pool(inputs):
    """What is counted in the status: no decision reads it."""
    return inputs.edit(NODE_POOL, "status.nodes", lambda pool: pool.status.nodes + 1)


@change("pool removed")
def remove_pool(inputs):
    pool = inputs.any(NODE_POOL) if len(inputs.all(NODE_POOL)) > 1 else None
    if pool is not None:
        inputs.drop(NODE_POOL, pool)
        inputs.catalogs.pop(pool.name, None)
    return pool is not None


# -- catalog


def _types(inputs):
    pools = [name for name, types in sorted(inputs.catalogs.items()) if types]
    pool = inputs.rng.choice(pools) if pools else None
    return pool, inputs.rng.choice(inputs.catalogs[pool]) if pool is not None else None


def _sell(inputs, pool, before, after):
    types = inputs.catalogs[pool]
    inputs.catalogs[pool] = tuple(after if each is before else each for each in types if each is not before or after)
    return True


@change("catalog type removed")
def remove_type(inputs):
    pool, chosen = _types(inputs)
    return pool is not None and len(inputs.catalogs[pool]) > 1 and _sell(inputs, pool, chosen, None)


@change("catalog type added")
def add_type(inputs):
    for pool, types in inputs.catalogs.items():
        names = {each.name for each in types}
        missing = [each for each in inputs.full_catalogs[pool] if each.name not in names]
        if missing:
            inputs.catalogs[pool] = (*types, missing[0])
            return True
    return False


@change("catalog capacity")
def regrade_type(inputs):
    pool, chosen = _types(inputs)
    if chosen is None:
        return False
    capacity = {**chosen.capacity, **amounts(cpu=inputs.rng.choice(("1", "6", "32")), memory="64Gi", pods="110")}
    return _sell(inputs, pool, chosen, replace(chosen, capacity=capacity))


@change("catalog overhead")
def reserve(inputs):
    pool, chosen = _types(inputs)
    return chosen is not None and _sell(inputs, pool, chosen, replace(chosen, overhead=amounts(cpu="900m")))


def _offerings(inputs, make):
    pool, chosen = _types(inputs)
    if chosen is None:
        return False
    return _sell(inputs, pool, chosen, replace(chosen, offerings=tuple(make(each) for each in chosen.offerings)))


@change("offering price")
def reprice(inputs):
    factor = inputs.rng.choice((0.1, 0.5, 3.0))
    return _offerings(inputs, lambda each: replace(each, price=each.price * factor))


@change("offering availability")
def run_short(inputs):
    return _offerings(inputs, lambda each: replace(each, available=inputs.rng.random() < 0.5))


@change("catalog missing")
def lose_catalog(inputs):
    """The provider does not answer for a pool, or does again."""
    absent = [pool for pool in inputs.objects[NODE_POOL.name] if pool.name not in inputs.catalogs]
    if absent:
        name = inputs.rng.choice(absent).name
        inputs.catalogs[name] = inputs.full_catalogs[name]
    else:
        inputs.catalogs.pop(inputs.any(NODE_POOL).name)
    return True


@change("catalog copied")
def copy_catalog(inputs):
    """Other objects that say the same: nothing follows from that."""
    inputs.catalogs = {pool: tuple(map(copy.deepcopy, types)) for pool, types in inputs.catalogs.items()}
    return True


# -- DaemonSets


@change("daemon requests")
def resize_daemon(inputs):
    def resized(each):
        first, *others = each.spec.template.spec.containers
        return (edited(first, "resources.requests", amounts(cpu=inputs.rng.choice(("10m", "900m", "3")))), *others)

    return inputs.edit(DAEMON_SET, "spec.template.spec.containers", resized)


@change("daemon selector")
def select_for_daemon(inputs):
    chosen = inputs.rng.choice(({}, {ZONE: inputs.rng.choice(ZONES)}))
    return inputs.edit(DAEMON_SET, "spec.template.spec.node_selector", lambda _: chosen)


@change("daemon tolerations")
def tolerate_for_daemon(inputs):
    chosen = inputs.rng.choice(((Toleration(operator="Exists"),), ()))
    return inputs.edit(DAEMON_SET, "spec.template.spec.tolerations", lambda _: chosen)


@change("daemon set added or removed")
def add_daemon(inputs):
    known = inputs.any(DAEMON_SET)
    if known is not None and inputs.rng.random() < 0.5:
        inputs.drop(DAEMON_SET, known)
        return True
    dice = throw(inputs.version, "small")
    made = some_daemon_sets(replace(dice, themes=frozenset({"daemons"})))
    for each in made[:1]:
        inputs.put(DAEMON_SET, renamed(each, f"daemon-{inputs.version}"))
    return bool(made)


# -- PodDisruptionBudgets


@change("budget selector")
def select_by_budget(inputs):
    chosen = inputs.rng.choice((LabelSelector(), None, *(LabelSelector(match_labels={"app": app}) for app in APPS)))
    return inputs.edit(POD_DISRUPTION_BUDGET, "spec.selector", lambda _: chosen)


@change("budget status")
def use_budget(inputs):
    return inputs.edit(POD_DISRUPTION_BUDGET, "status.disruptions_allowed", lambda _: inputs.rng.choice((0, 1, 3)))


@change("budget added or removed")
def add_budget(inputs):
    """By name it comes first or last, so that the positions of the others change."""
    known = inputs.any(POD_DISRUPTION_BUDGET)
    if known is not None and inputs.rng.random() < 0.5:
        inputs.drop(POD_DISRUPTION_BUDGET, known)
        return True
    name, app = inputs.rng.choice(("a-first", "z-last")), inputs.rng.choice(APPS)
    inputs.put(POD_DISRUPTION_BUDGET, budget(name, "default", {"app": app}, inputs.rng.choice((0, 1))))
    return True


# -- storage and namespaces


def in_use(inputs, claim):
    """Whether a pod mounts the volume claim."""
    near = (pod for pod in inputs.all(POD) if pod.metadata.namespace == claim.metadata.namespace)
    return any(claim.name in mounted(pod) for pod in near)


def mounted(pod):
    """The names of the volume claims of a pod."""
    return {each.persistent_volume_claim.claim_name for each in pod.spec.volumes if each.persistent_volume_claim}


@change("pod volumes")
def mount(inputs):
    chosen = inputs.rng.choice(((), (Volume(name="v", persistent_volume_claim=ClaimVolume(claim_name="zonal")),)))
    return inputs.edit(POD, "spec.volumes", lambda _: chosen)


@change("volume affinity")
def move_volume(inputs):
    terms = (NodeSelectorTerm(match_expressions=(expression(ZONE, "In", inputs.rng.choice(ZONES)),)),)
    affinity = VolumeNodeAffinity(required=NodeSelector(node_selector_terms=terms))
    bound = {each.spec.volume_name for each in inputs.all(PERSISTENT_VOLUME_CLAIM) if in_use(inputs, each)}
    return inputs.edit(PERSISTENT_VOLUME, "spec.node_affinity", lambda _: affinity, lambda each: each.name in bound)


@change("volume claim")
def rebind(inputs):
    chosen = inputs.rng.choice((f"pv-default-{inputs.rng.choice(CLAIMS)}", ""))
    return inputs.edit(PERSISTENT_VOLUME_CLAIM, "spec.volume_name", lambda _: chosen, lambda each: in_use(inputs, each))


@change("storage class")
def redefine_class(inputs):
    chosen = inputs.rng.choice(("WaitForFirstConsumer", "Immediate"))
    return inputs.edit(STORAGE_CLASS, "volume_binding_mode", lambda _: chosen)


@change("attach limits")
def limit_volumes(inputs):
    node = inputs.any(NODE)
    if node is not None:
        inputs.put(CSI_NODE, csi_node(node.name, {DRIVER: inputs.rng.choice((0, 1, 5))}))
    return node is not None


@change("volume attachment")
def attach(inputs):
    known, node = inputs.any(VOLUME_ATTACHMENT), inputs.any(NODE)
    if known is not None and inputs.rng.random() < 0.5:
        inputs.drop(VOLUME_ATTACHMENT, known)
    elif node is not None:
        name = f"attachment-{inputs.rng.randint(1, 3)}"
        spec = VolumeAttachmentSpec(attacher=DRIVER, node_name=node.name)
        inputs.put(VOLUME_ATTACHMENT, VolumeAttachment(metadata=ObjectMeta(name=name), spec=spec))
    return True


@change("namespace labels")
def relabel_namespace(inputs):
    chosen = inputs.rng.choice(({}, {"tier": "front"}, {"tier": "back"}))
    return inputs.edit(NAMESPACE, "metadata.labels", lambda _: chosen)
