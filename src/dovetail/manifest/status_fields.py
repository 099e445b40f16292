"""The rest of `fields`: NodeClaims, node classes, what status says, and the table over all of it."""

from collections.abc import Mapping

from dovetail.manifest import cel_rules
from dovetail.manifest.cel_rules import BOTH, Rule
from dovetail.manifest.ec2nodeclass.fields import EC2_FIELDS, EC2_RULES
from dovetail.manifest.field_constraints import AMOUNT, INSTANCE, POOL_FIELDS, RULES_OF_TYPE, Field, text
from dovetail.manifest.patterns import DURATION, LABEL_KEY
from dovetail.model.ec2nodeclass import EC2NodeClassStatus
from dovetail.model.kube_object import Condition
from dovetail.model.kwoknodeclass import KWOKNodeClass, KWOKNodeClassSpec, KWOKNodeClassStatus
from dovetail.model.nodeclaim import ClaimResources, NodeClaim, NodeClaimSpec, NodeClaimStatus
from dovetail.model.nodepool import NodePool, NodePoolStatus

KWOK_VERSION = "v1alpha1"
_ALL = (*BOTH, KWOK_VERSION)
_CONDITIONS = Field(
    about="What is known about the object.",
    limits={"maxItems": 64, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
)
_READY_FROM_THE_START = {
    "conditions": [
        {
            "type": "Ready",
            "status": "True",
            "reason": "Ready",
            "message": "",
            "lastTransitionTime": "2024-01-01T00:00:00Z",
        }
    ]
}
_AMOUNTS = {"maxProperties": 200}

FIELDS: Mapping[type, Mapping[str, Field]] = {
    **POOL_FIELDS,
    NodePool: {
        "metadata": Field(about="Standard metadata."),
        "spec": Field(about="What the pool should be.", required_in=BOTH),
        "status": Field(about="What the pool has."),
    },
    NodePoolStatus: {
        "resources": Field(about="What the nodes of the pool add up to.", limits=_AMOUNTS, each=AMOUNT),
        "nodes": Field(about="How many nodes the pool has.", limits={"minimum": 0}, defaults=dict.fromkeys(BOTH, 0)),
        "node_class_observed_generation": Field(about="The generation of the node class that was last looked at."),
        "conditions": _CONDITIONS,
    },
    NodeClaim: {
        "metadata": Field(about="Standard metadata."),
        "spec": Field(about="The instance asked for.", required_in=BOTH),
        "status": Field(about="The instance got, and how far it has come."),
    },
    NodeClaimSpec: {
        **INSTANCE,
        "resources": Field(about="What the pods it was made for need."),
    },
    ClaimResources: {"requests": Field(about="Amounts by resource.", limits=_AMOUNTS, each=AMOUNT)},
    NodeClaimStatus: {
        "node_name": Field(about="The Node."),
        "provider_id": Field(about="The instance, as the provider names it."),
        "image_id": Field(about="The image the instance runs."),
        "capacity": Field(about="What the instance has.", limits=_AMOUNTS, each=AMOUNT),
        "allocatable": Field(about="What of it pods can use.", limits=_AMOUNTS, each=AMOUNT),
        "conditions": _CONDITIONS,
        "last_pod_event_time": Field(about="When a pod last came to the node or left it."),
    },
    **EC2_FIELDS,
    EC2NodeClassStatus: {**EC2_FIELDS[EC2NodeClassStatus], "conditions": _CONDITIONS},
    KWOKNodeClass: {
        "metadata": Field(about="Standard metadata."),
        "spec": Field(about="How simulated nodes behave."),
        "status": Field(about="Readiness.", defaults={KWOK_VERSION: _READY_FROM_THE_START}),
    },
    KWOKNodeClassSpec: {
        "node_registration_delay": Field(
            about="How long after launch a simulated node registers. Absent: at once.", limits=text(DURATION, 64)
        )
    },
    KWOKNodeClassStatus: {"conditions": _CONDITIONS},
    Condition: {
        "type": Field(about="What the condition is about.", limits=text(LABEL_KEY, 316)),
        "status": Field(
            about="Whether it holds.",
            limits={"enum": ["True", "False", "Unknown"]},
            defaults=dict.fromkeys(_ALL, "Unknown"),
        ),
        "reason": Field(about="One word for why.", limits={"maxLength": 1024}),
        "message": Field(about="A sentence for people.", limits={"maxLength": 32768}),
        "last_transition_time": Field(about="When the status last changed."),
        "last_heartbeat_time": Field(about="Only nodes and pods have it.", hidden=True),
        "observed_generation": Field(about="The generation it was found on.", limits={"minimum": 0}),
    },
}
RULES: Mapping[type, tuple[Rule, ...]] = {**RULES_OF_TYPE, **EC2_RULES, NodeClaimSpec: (cel_rules.SPEC_STAYS,)}
