"""Seeded mutations of manifests that stay close to what a CRD accepts: every kind, both versions.

A third or so of them is accepted. The others are refused for one or two faults, which is where two schemas, or a schema
and a program that decodes, could disagree.
"""

import copy
from collections.abc import Iterator
from random import Random
from typing import Any

from dovetail.manifest.schema import KINDS, Scope, schema_of
from dovetail.manifest.validation import scope_of
from manifest.corpus import CASES, TAINT, claim, node_class, pool
from manifest.ec2nodeclass_corpus import EC2_CASES, TAGGED, ec2_class
from manifest.karpenter_crds import facts_of
from manifest.seed_examples import EXAMPLES

SPANS = ("", "Never", "0s", "1h30m", "720h", "90m", "8h", "1d", "99999999999h", "9" * 30 + "s", "-1h", "1.5h", "1h0m0s")
AMOUNTS = (
    "5",
    "5Gi",
    "500m",
    ".5",
    "1.",
    "+1",
    "-1",
    "1e3",
    "1e1.5",
    "1e999999",
    "1E",
    "9" * 40,
    "64000G",
    "18Ti",
    "Ti",
)
SHARES = ("10%", "0%", "100%", "101%", "5%", "5.55%", "100.00%", "5 %")
INSTANTS = (
    *("2024-01-31T12:00:00Z", "2024-01-31t12:00:00z", "2024-01-31T12:00:00.123456+01:00", "2024-13-31T12:00:00Z"),
    *("2024-01-31", "2024-01-31T12:00:00", "2024-01-31T12:00:00+25:00", "2024-01-31 12:00:00Z"),
)
SCHEDULES = ("@daily", "@dailyx", "0 9 * * mon-fri", "0 0 0 9 * *", "a b c d e", "* * *", "0\t9\t*\t*\t7")
KEYS = (
    *("karpenter.sh/capacity-type", "karpenter.sh/nodepool", "karpenter.sh/x", "x.karpenter.sh/y", "mykarpenter.sh/y"),
    *(
        "karpenter.k8s.aws/instance-size",
        "karpenter.k8s.aws/x",
        "karpenter.kwok.sh/instance-cpu",
        "karpenter.kwok.sh/x",
    ),
    *(
        "kubernetes.io/hostname",
        "kubernetes.io/arch",
        "example.com/a",
        "a/b/c",
        "/a",
        "a/",
        "karpenter.sh",
        "a b",
        "A.b_c",
    ),
    *("eks:eks-cluster-name", "kubernetes.io/cluster/x", "kubernetes.io/clusters", "memory.available", "cpu", "nodes"),
)
NAMES = (
    *("x", "x" * 64, "x" * 320, "é", "\n", "a\nb", "a b", "a/b", "True", "Ready", "spot", "default", "False"),
    *("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lte", "NoSchedule", "NoExecute", "All", "Drift", "Emptiness"),
    *("WhenEmpty", "WhenEmptyOrUnderutilized", "WhenUnderutilized", "Balanced", "Drifted", "Empty", "Expired"),
    *("al2023@latest", "al2@v1", "AL2@latest", "windows2022@v1", "windows2022@latest", "al2023@", "al2023@a@b", "x@y"),
    *(
        "AL2",
        "AL2023",
        "Custom",
        "Windows2022",
        "ami-1",
        "subnet-1",
        "sg-1",
        "my sg-1 x",
        "cr-1",
        "pg-1",
        "123456789012",
    ),
    *(
        "gp3",
        "gp9",
        "RAID0",
        "enabled",
        "disabled",
        "required",
        "optional",
        "open",
        "targeted",
        "interface",
        "efa-only",
    ),
)
TEXTS = (*SPANS, *AMOUNTS, *SHARES, *INSTANTS, *SCHEDULES, *KEYS, *NAMES)
NUMBERS = (0, 1, -1, 2, 5, 30, 50, 51, 64, 65, 100, 101, 300, 432000, 2**31 - 1, 2**31, 2**53, 2**63 - 1, 1.0, 1.5)
OTHERS = (True, False, None, [], {}, ["x"], {"a": "b"}, [{}], [[]], [None])

_REQUIREMENTS = [
    {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64", "arm64"], "minValues": 1},
    {"key": "karpenter.k8s.aws/instance-cpu", "operator": "Gt", "values": ["4"]},
    {"key": "example.com/a", "operator": "Exists"},
]
_BUDGETS = [{"nodes": "10%", "reasons": ["Drifted"]}, {"nodes": "5", "schedule": "0 9 * * mon-fri", "duration": "8h"}]
_INSTANCE: dict[str, Any] = {
    "requirements": _REQUIREMENTS,
    "taints": [{**TAINT, "value": "x", "timeAdded": "2024-01-31T12:00:00Z"}],
    "startupTaints": [TAINT],
    "terminationGracePeriod": "1h",
    "expireAfter": "720h",
}
_CONDITION = {
    "type": "Ready",
    "status": "True",
    "reason": "Ready",
    "message": "",
    "lastTransitionTime": "2024-01-31T12:00:00Z",
    "observedGeneration": 3,
}
_STATUSES: dict[str, dict[str, Any]] = {
    "NodePool": {"nodes": 3, "resources": {"cpu": "5", "memory": 1024}, "conditions": [_CONDITION]},
    "NodeClaim": {
        "providerID": "a",
        "capacity": {"cpu": "4"},
        "lastPodEventTime": "2024-01-31T12:00:00Z",
        "conditions": [_CONDITION],
    },
    "EC2NodeClass": {
        "subnets": [{"id": "subnet-1", "zone": "a"}],
        "amis": [{"id": "ami-1", "requirements": _REQUIREMENTS[:1]}],
        "capacityReservations": [
            {
                "id": "cr-1",
                "availabilityZone": "a",
                "instanceType": "b",
                "instanceMatchCriteria": "open",
                "ownerID": "123456789012",
                "endTime": "2024-01-31T12:00:00Z",
            }
        ],
        "conditions": [_CONDITION],
    },
    "KWOKNodeClass": {"conditions": [_CONDITION]},
}
_POOL: dict[str, Any] = {
    "metadata": {"labels": {"example.com/team": "a"}, "annotations": {"a": "b"}},
    "limits": {"cpu": "1k", "memory": "5Gi", "nodes": 9},
    "weight": 5,
}
_CLASS: dict[str, Any] = {
    "amiFamily": "AL2023",
    "capacityReservationSelectorTerms": [{"id": "cr-1"}, {"tags": {"a": "b"}, "ownerID": "123456789012"}],
    "placementGroupSelector": {"name": "a"},
    "tags": {"team": "a"},
    "blockDeviceMappings": [
        {
            "deviceName": "/dev/xvda",
            "rootVolume": True,
            "ebs": {"volumeSize": "20Gi", "volumeType": "gp3", "iops": 3000},
        },
        {"ebs": {"snapshotID": "snap-1", "volumeInitializationRate": 100, "encrypted": True}},
    ],
    "networkInterfaces": [
        {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
        {"networkCardIndex": 0, "deviceIndex": 1, "interfaceType": "efa-only"},
    ],
    "metadataOptions": {"httpTokens": "optional", "httpPutResponseHopLimit": 2},
    "connectionTracking": {"tcpEstablishedTimeout": 60, "udpTimeout": 30},
    "cpuOptions": {"nestedVirtualization": "enabled"},
    "instanceStorePolicy": "RAID0",
    "detailedMonitoring": True,
    "ipPrefixCount": 1,
    "kubelet": {
        "clusterDNS": ["10.0.0.1"],
        "maxPods": 20,
        "kubeReserved": {"cpu": "200m", "memory": "100Mi"},
        "evictionHard": {"memory.available": "5%"},
        "evictionSoft": {"memory.available": "500Mi"},
        "evictionSoftGracePeriod": {"memory.available": "1m"},
        "imageGCHighThresholdPercent": 80,
        "imageGCLowThresholdPercent": 60,
        "cpuCFSQuota": True,
    },
}
FULL = (
    pool(template=_INSTANCE, disruption={"consolidateAfter": "30s", "budgets": _BUDGETS}, **_POOL),
    pool(replicas=3, limits={"nodes": 5}),
    pool(
        template=_INSTANCE,
        disruption={
            "consolidationPolicy": "Balanced",
            "consolidateAfter": "30s",
            "consolidationGracePeriod": "5m",
            "minSavings": "60%",
            "expireAfter": "336h",
            "budgets": [{"nodes": "1", "action": "Drift"}],
            "actionControls": {"Drift": {"disruptAfter": "1h", "budgets": [{"nodes": "1"}]}},
        },
        repair={"defaultTolerationDuration": "30m", "policies": [{"conditionType": "Ready", "toleration": "15m"}]},
    ),
    pool(
        "v1beta1",
        template={**_INSTANCE, "kubelet": {"maxPods": 20}},
        disruption={"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s", "budgets": _BUDGETS},
        **_POOL,
    ),
    claim(**_INSTANCE, resources={"requests": {"cpu": "1500m", "memory": "1Gi"}}),
    claim("v1beta1", **_INSTANCE),
    ec2_class(**_CLASS),
    ec2_class(**_CLASS, amiSelectorTerms=[{"id": "ami-1"}, {"name": "a", "owner": "self"}, {"tags": {"a": "*"}}]),
    ec2_class("v1beta1", **_CLASS, subnetSelectorTerms=[{"id": "subnet-1"}, *TAGGED]),
    node_class(nodeRegistrationDelay="30s"),
)


def scope_at(document: dict[str, Any]) -> Scope:
    """The kind and version of a document."""
    scope = scope_of(document["apiVersion"], document["kind"])
    assert scope is not None
    return scope


def mutants(seed: int, count: int) -> Iterator[dict[str, Any]]:
    """Documents with one to three changes below spec or status."""
    random = Random(seed)  # noqa: S311 - reproducible, not secret
    small = [case.document for case in (*EXAMPLES, *CASES, *EC2_CASES) if isinstance(case.document.get("spec"), dict)]
    names = {scope: sorted({path.rpartition(".")[2] for path in facts_of(schema_of(scope))} - {""}) for scope in KINDS}
    for number in range(count):
        document = copy.deepcopy(random.choice(FULL if random.random() < 0.7 else small))
        document["metadata"] = {"name": f"mutant-{number}"}
        if random.random() < 0.2:
            document["status"] = copy.deepcopy(_STATUSES[document["kind"]])
        for _ in range(random.choice((1, 1, 1, 2, 3))):
            _change(random, document, names[scope_at(document)])
        yield document


def _change(random: Random, document: dict[str, Any], names: list[str]) -> None:
    places = [place for part in ("spec", "status") for place in _places(document.get(part), (part,)) if len(place) > 1]
    if not places:
        return
    *path, last = random.choice(places)
    holder: Any = document
    for key in path:
        holder = holder[key]
    kind = random.random()
    if kind < 0.15:
        del holder[last]
    elif kind < 0.3 and isinstance(holder, dict):
        holder[random.choice(names if random.random() < 0.7 else KEYS)] = _value(random)
    elif kind < 0.4:
        holder[last] = copy.deepcopy(_at(document, random.choice(places)))
    elif kind < 0.5 and isinstance(holder, list):
        holder.extend(copy.deepcopy(holder) * random.choice((1, 1, 60)))
    else:
        holder[last] = _value(random, holder[last])


def _value(random: Random, before: object = None) -> object:
    """Mostly a value of the same type."""
    if isinstance(before, bool):
        before = None
    pool_of = TEXTS if isinstance(before, str) else NUMBERS if isinstance(before, int) else (*TEXTS, *NUMBERS, *OTHERS)
    values: tuple[object, ...] = pool_of if random.random() < 0.85 else (*NUMBERS, *OTHERS, *TEXTS[:9])
    return copy.deepcopy(random.choice(values))


def _at(document: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        document = document[key]
    return document


def _places(value: object, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from _places(each, (*path, key))
