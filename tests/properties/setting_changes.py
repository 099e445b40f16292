"""Random changes of settings and time, and objects that cannot be read. Each returns whether it changed anything."""

import copy
from dataclasses import replace
from datetime import timedelta

from dovetail.model.cluster_objects import ConfigMap
from dovetail.model.kinds import (
    CONFIG_MAP,
    DAEMON_SET,
    NODE,
    NODE_CLAIM,
    NODE_POOL,
    POD,
    POD_DISRUPTION_BUDGET,
)
from dovetail.model.kube_object import Fault, ObjectMeta, UnreadableObject
from dovetail.model.pause import PAUSE, SWITCH
from dovetail.model.reason import Reason
from properties.inputs import change

# -- what cannot be read, settings and time


@change("object unreadable")
def spoil(inputs):
    kind = inputs.rng.choice((POD, NODE, NODE_CLAIM, NODE_POOL, POD_DISRUPTION_BUDGET))
    bad = sorted(inputs.unreadable[kind.name].items())
    if bad and inputs.rng.random() < 0.7:
        inputs.put(kind, bad[0][1].partial)
        return True
    value = inputs.any(kind)
    if value is not None:
        faults = (Fault("spec.broken", "cannot be read"),)
        inputs.spoil(
            kind, UnreadableObject(metadata=value.metadata, faults=faults, partial=value, lost=("spec.broken",))
        )
    return value is not None


@change("nothing but the version")
def touch(inputs):
    """An object is written as it is: equal parts, of which none is the same."""
    kind = inputs.rng.choice((POD, POD, NODE, NODE_CLAIM, NODE_POOL, DAEMON_SET, POD_DISRUPTION_BUDGET))
    value = inputs.any(kind)
    if value is not None:
        inputs.put(kind, copy.deepcopy(value))
    return value is not None


@change("gates")
def switch_gates(inputs):
    name = inputs.rng.choice(("drift", "spot_to_spot", "respect_preferences"))
    inputs.gates = replace(inputs.gates, **{name: not getattr(inputs.gates, name)})
    return True


@change("pause of everything")
def pause(inputs):
    chosen = inputs.rng.choice(({PAUSE: "true"}, {}, {}))
    inputs.put(CONFIG_MAP, ConfigMap(metadata=ObjectMeta(name=SWITCH, namespace="default", annotations=chosen)))
    return True


@change("failed commands")
def back_off(inputs):
    pool = inputs.any(NODE_POOL)
    until = inputs.at + timedelta(minutes=5)
    inputs.backing_off = inputs.rng.choice(({}, {(pool.name, Reason.UNDERUTILIZED): until}))
    return True


@change("nomination")
def nominate(inputs):
    node = inputs.any(NODE)
    if node is not None:
        inputs.nominations[node.name] = inputs.at + timedelta(seconds=20)
    return node is not None


@change("time")
def pass_time(inputs):
    seconds = inputs.rng.choice((1, 31, 61, 3_601, 3 * 3600, 30 * 3600))
    inputs.at += timedelta(seconds=seconds)
    return True
