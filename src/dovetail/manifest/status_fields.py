"""The tables of all field constraints and rules, with the entries for NodeClaims, node classes and status fields."""

from collections.abc import Mapping

from dovetail.manifest import cel_rules
from dovetail.manifest.cel_rules import BOTH, Rule
from dovetail.manifest.ec2nodeclass.fields import EC2_FIELDS, EC2_RULES
from dovetail.manifest.field_constraints import AMOUNT, INSTANCE, POOL_FIELDS, RULES_OF_TYPE, Field, text
from dovetail.manifest.patterns import CONDITION_REASON, DURATION, LABEL_KEY, OPTIONAL_REASON
from dovetail.model.ec2nodeclass import EC2NodeClassStatus
from dovetail.model.kube_object import Condition
from dovetail.model.kwoknodeclass import KWOKNodeClass, KWOKNodeClassSpec, KWOKNodeClassStatus
from dovetail.model.nodeclaim import ClaimResources, NodeClaim, NodeClaimSpec, NodeClaimStatus
from dovetail.model.nodepool import NodePool, NodePoolStatus

KWOK_VERSION = "v1alpha1"
_ALL = (*BOTH, KWOK_VERSION)
_CONDITIONS = Field(
    about="The latest observations about the object.",
    limits={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
)
_CLASS_CONDITIONS = Field(about="The latest observations about the object.")
_OF_CONFIGURATION = ("NodePool", "EC2NodeClass", "KWOKNodeClass")  # their conditions have a reason and a message
_READY_STATUS = {
    "conditions": [
        {
            "type": "Ready",
            "status": "True",
            "reason": "Ready",
            "message": "",
            "lastTransitionTime": "2024-01-01T01:01:01Z",
        }
    ]
}

FIELDS: Mapping[type, Mapping[str, Field]] = {
    **POOL_FIELDS,
    NodePool: {
        "metadata": Field(about="Standard metadata."),
        "spec": Field(about="The desired state of the pool.", required_in=BOTH),
        "status": Field(about="The observed state of the pool."),
    },
    NodePoolStatus: {
        "resources": Field(about="The sum of the resources of the pool's nodes.", each=AMOUNT),
        "nodes": Field(
            about="How many nodes the pool has.",
            defaults=dict.fromkeys(BOTH, 0),
            limits={"minimum": 0},  # the limit of the scale subresource
        ),
        "node_class_observed_generation": Field(about="The generation of the node class that was last observed."),
        "conditions": _CONDITIONS,
    },
    NodeClaim: {
        "metadata": Field(about="Standard metadata."),
        "spec": Field(about="The requested instance.", required_in=BOTH),
        "status": Field(about="The launched instance, and the progress of its lifecycle."),
    },
    NodeClaimSpec: {
        **INSTANCE,
        "resources": Field(about="The resources that the pods for this claim request."),
    },
    ClaimResources: {"requests": Field(about="Amounts by resource.", each=AMOUNT)},
    NodeClaimStatus: {
        "node_name": Field(about="The name of the Node."),
        "provider_id": Field(about="The provider ID of the instance."),
        "image_id": Field(about="The image of the instance."),
        "capacity": Field(about="The capacity of the instance.", each=AMOUNT),
        "allocatable": Field(about="The part of the capacity that is available for pods.", each=AMOUNT),
        "conditions": _CONDITIONS,
        "last_pod_event_time": Field(about="When a pod was last added to the node or removed from it."),
    },
    **EC2_FIELDS,
    EC2NodeClassStatus: {**EC2_FIELDS[EC2NodeClassStatus], "conditions": _CLASS_CONDITIONS},
    KWOKNodeClass: {
        "metadata": Field(about="Standard metadata."),
        "spec": Field(about="The behavior of simulated nodes."),
        "status": Field(about="Readiness.", defaults={KWOK_VERSION: _READY_STATUS}),
    },
    KWOKNodeClassSpec: {
        "node_registration_delay": Field(
            about="How long after launch a simulated node registers. Absent: at once.",
            limits={"pattern": DURATION},
            rules=(cel_rules.IN_RANGE,),
        )
    },
    KWOKNodeClassStatus: {"conditions": _CLASS_CONDITIONS},
    Condition: {
        "type": Field(about="The type of the condition.", limits=text(LABEL_KEY, 316)),
        "status": Field(about="The status of the condition.", limits={"enum": ["True", "False", "Unknown"]}),
        "reason": Field(
            about="The reason of the last transition, as one word.",
            limits={"maxLength": 1024},
            limits_in={
                "NodeClaim": {"pattern": OPTIONAL_REASON},
                **{kind: {"pattern": CONDITION_REASON, "minLength": 1} for kind in _OF_CONFIGURATION},
            },
            required_in=_ALL,
            optional_for=("NodeClaim",),
        ),
        "message": Field(
            about="A message with details for users.",
            limits={"maxLength": 32768},
            required_in=_ALL,
            optional_for=("NodeClaim",),
        ),
        "last_transition_time": Field(about="When the status last changed.", required_in=_ALL),
        "last_heartbeat_time": Field(about="Only set on nodes and pods.", hidden=True),
        "observed_generation": Field(about="The generation that the condition was observed on.", limits={"minimum": 0}),
    },
}
RULES: Mapping[type, tuple[Rule, ...]] = {**RULES_OF_TYPE, **EC2_RULES, NodeClaimSpec: (cel_rules.SPEC_STAYS,)}
