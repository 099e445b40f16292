"""Realistic pods as an API server sends them, the same every time: some 6 KB each, managedFields and all.

Fifteen pods share a workload, as replicas do; no two share a name, an address or their instants.
"""

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

PAGE = 500
SEED = 20
BEGIN = datetime(2025, 3, 1, 12, tzinfo=UTC)
TEAMS = ("checkout", "search", "identity", "media", "billing", "fraud", "ledger", "ingest")
ZONES = ("eu-west-1a", "eu-west-1b", "eu-west-1c")


def write(directory: Path, count: int) -> int:
    """Write the pages of the list, and the watch; return the size of the list in bytes."""
    size = 0
    with watch(directory).open("wb") as stream:
        for number in range(0, count, PAGE):
            made = [pod(index) for index in range(number, min(number + PAGE, count))]
            meta = {"resourceVersion": "900000", **({"continue": "token"} if number + PAGE < count else {})}
            data = _encoded({"kind": "PodList", "apiVersion": "v1", "metadata": meta, "items": made})
            (directory / f"page-{number:08}.json").write_bytes(data)
            size += len(data)
            for each in made:
                stream.write(_encoded({"type": "ADDED", "object": {"kind": "Pod", "apiVersion": "v1", **each}}) + b"\n")
    return size


def pages(directory: Path) -> Iterator[Path]:
    """The pages of the list, in order."""
    return iter(sorted(directory.glob("page-*.json")))


def watch(directory: Path) -> Path:
    """The watch."""
    return directory / "watch.jsonl"


def _encoded(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _seeded(*parts: object) -> random.Random:
    return random.Random("/".join(map(str, (SEED, *parts))))  # noqa: S311 - not for secrets


def _hex(rng: random.Random, digits: int) -> str:
    return f"{rng.getrandbits(4 * digits):0{digits}x}"


def _uid(rng: random.Random) -> str:
    return "-".join(_hex(rng, digits) for digits in (8, 4, 4, 4, 12))


def _at(seconds: int) -> str:
    return (BEGIN + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def pod(index: int) -> dict[str, Any]:
    """The pod of that number."""
    workload = index // 15
    app = f"{TEAMS[workload % len(TEAMS)]}-api-{workload:04}"
    own = _seeded(workload, index)
    born = index * 7
    return {
        "metadata": _metadata(app, own, born),
        "spec": _spec(app, _seeded("spec", app), own),
        "status": _status(app, own, born),
    }


def _metadata(app: str, own: random.Random, born: int) -> dict[str, Any]:
    shared = _seeded("metadata", app)
    team, template_hash = app.partition("-")[0], _hex(shared, 10)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{app}-{template_hash}", "uid": _uid(shared)}
    return {
        "name": f"{app}-{template_hash}-{_hex(own, 5)}",
        "generateName": f"{app}-{template_hash}-",
        "namespace": f"team-{team}",
        "uid": _uid(own),
        "resourceVersion": str(100_000 + born),
        "creationTimestamp": _at(born),
        "labels": {
            "app.kubernetes.io/name": app,
            "app.kubernetes.io/part-of": team,
            "app.kubernetes.io/version": "2.14.3",
            "pod-template-hash": template_hash,
        },
        "annotations": {
            "prometheus.io/scrape": "true",
            "prometheus.io/port": "9102",
            "checksum/config": _hex(shared, 64),
        },
        "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        "managedFields": [
            _managed("kube-controller-manager", born, _TEMPLATE_FIELDS),
            {**_managed("kubelet", born + 9, _STATUS_FIELDS), "subresource": "status"},
        ],
    }


def _managed(manager: str, born: int, fields: dict[str, Any]) -> dict[str, Any]:
    entry = {"manager": manager, "operation": "Update", "apiVersion": "v1", "time": _at(born), "fieldsType": "FieldsV1"}
    return {**entry, "fieldsV1": fields}


_CONTAINER_FIELDS: dict[str, Any] = {
    f"f:{name}": {}
    for name in (".", "image", "imagePullPolicy", "name", "resources", "terminationMessagePath", "volumeMounts")
}
_TEMPLATE_FIELDS: dict[str, Any] = {
    "f:metadata": {
        "f:annotations": {".": {}, "f:checksum/config": {}, "f:prometheus.io/port": {}, "f:prometheus.io/scrape": {}},
        "f:generateName": {},
        "f:labels": {".": {}, "f:app.kubernetes.io/name": {}, "f:pod-template-hash": {}},
        "f:ownerReferences": {".": {}, 'k:{"uid":"5f0c1a4e-8f0e-4f43-8b58-3f5d3b1f9a77"}': {}},
    },
    "f:spec": {
        "f:containers": {'k:{"name":"app"}': _CONTAINER_FIELDS, 'k:{"name":"proxy"}': _CONTAINER_FIELDS},
        "f:dnsPolicy": {},
        "f:enableServiceLinks": {},
        "f:restartPolicy": {},
        "f:schedulerName": {},
        "f:securityContext": {},
        "f:terminationGracePeriodSeconds": {},
        "f:volumes": {},
    },
}
_STATUS_FIELDS: dict[str, Any] = {
    "f:status": {
        "f:conditions": {
            f'k:{{"type":"{kind}"}}': {".": {}, "f:lastTransitionTime": {}, "f:status": {}, "f:type": {}}
            for kind in ("ContainersReady", "Initialized", "Ready")
        },
        "f:containerStatuses": {},
        "f:phase": {},
        "f:podIP": {},
        "f:startTime": {},
    }
}


def _spec(app: str, shared: random.Random, own: random.Random) -> dict[str, Any]:
    token = f"kube-api-access-{_hex(own, 5)}"
    spec: dict[str, Any] = {
        "volumes": _volumes(app, token),
        "containers": [_app_container(app, token, shared), _proxy_container(token, shared)],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": shared.choice((30, 60)),
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": app,
        "serviceAccount": app,
        "nodeName": f"ip-10-{own.randrange(4)}-{own.randrange(256)}-{own.randrange(256)}.eu-west-1.compute.internal",
        "securityContext": {"runAsNonRoot": True, "fsGroup": 2000},
        "schedulerName": "default-scheduler",
        "tolerations": [
            {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            for key in ("not-ready", "unreachable")
        ],
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    selector = {"matchLabels": {"app.kubernetes.io/name": app}}
    if shared.random() < 0.2:
        spec["affinity"] = _affinity(selector, shared)
    if shared.random() < 0.25:
        spread = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
        spec["topologySpreadConstraints"] = [{**spread, "labelSelector": selector}]
    if shared.random() < 0.3:
        spec["nodeSelector"] = {"kubernetes.io/arch": shared.choice(("amd64", "arm64"))}
        spec["tolerations"].append({"key": "dedicated", "operator": "Equal", "value": app, "effect": "NoSchedule"})
    return spec


def _affinity(selector: dict[str, Any], shared: random.Random) -> dict[str, Any]:
    zones = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": sorted(shared.sample(ZONES, 2))}
    apart = {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [zones]}]}
        },
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": apart}]
        },
    }


def _volumes(app: str, token: str) -> list[dict[str, Any]]:
    name_of_namespace = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    sources = [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": name_of_namespace}]}},
    ]
    return [
        {"name": "config", "configMap": {"name": f"{app}-config", "defaultMode": 420}},
        {"name": "scratch", "emptyDir": {"sizeLimit": "1Gi"}},
        {"name": token, "projected": {"sources": sources, "defaultMode": 420}},
    ]


def _container(name: str, image: str, token: str) -> dict[str, Any]:
    path = "/var/run/secrets/kubernetes.io/serviceaccount"
    return {
        "name": name,
        "image": f"registry.example.com/{image}",
        "volumeMounts": [{"name": token, "readOnly": True, "mountPath": path}],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }


def _app_container(app: str, token: str, shared: random.Random) -> dict[str, Any]:
    memory = shared.choice(("256Mi", "512Mi", "1Gi", "2Gi"))
    probe = {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 10}
    return {
        **_container("app", f"{app}:2.14.3", token),
        "args": ["serve", "--listen=:8080", f"--name={app}"],
        "ports": [
            {"name": "http", "containerPort": 8080, "protocol": "TCP"},
            {"name": "metrics", "containerPort": 9102, "protocol": "TCP"},
        ],
        "env": [
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
            {"name": "DATABASE_URL", "valueFrom": {"secretKeyRef": {"name": f"{app}-db", "key": "url"}}},
            {"name": "LOG_LEVEL", "value": "info"},
        ],
        "resources": {
            "limits": {"memory": memory},
            "requests": {"cpu": shared.choice(("100m", "250m", "500m", "1")), "memory": memory},
        },
        "livenessProbe": {**probe, "initialDelaySeconds": 5, "successThreshold": 1, "failureThreshold": 3},
        "readinessProbe": {**probe, "successThreshold": 1, "failureThreshold": 3},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }


def _proxy_container(token: str, shared: random.Random) -> dict[str, Any]:
    return {
        **_container("proxy", "mesh/proxy:1.31.0", token),
        "args": ["proxy", "sidecar", "--log-level=warning"],
        "resources": {
            "limits": {"cpu": "2", "memory": "256Mi"},
            "requests": {"cpu": shared.choice(("10m", "50m")), "memory": "64Mi"},
        },
    }


def _status(app: str, own: random.Random, born: int) -> dict[str, Any]:
    address = f"10.{own.randrange(64, 128)}.{own.randrange(256)}.{own.randrange(1, 255)}"
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    return {
        "phase": "Running",
        "conditions": [
            {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": _at(born + wait)}
            for wait, kind in enumerate(kinds)
        ],
        "hostIP": "10.0.12.7",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": _at(born),
        "containerStatuses": [
            _container_status(name, image, own, born)
            for name, image in (("app", f"{app}:2.14.3"), ("proxy", "mesh/proxy:1.31.0"))
        ],
        "qosClass": "Burstable",
    }


def _container_status(name: str, image: str, own: random.Random, born: int) -> dict[str, Any]:
    return {
        "name": name,
        "state": {"running": {"startedAt": _at(born + 3)}},
        "lastState": {},
        "ready": True,
        "restartCount": 0,
        "image": f"registry.example.com/{image}",
        "imageID": f"registry.example.com/{image.partition(':')[0]}@sha256:{_hex(own, 64)}",
        "containerID": f"containerd://{_hex(own, 64)}",
        "started": True,
    }
