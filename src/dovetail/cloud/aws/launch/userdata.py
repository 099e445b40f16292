"""The user data with which an instance joins the cluster as the node of its NodeClaim.

Each AMI family has its format: MIME with a NodeConfig (AL2023), MIME with a shell script (AL2), TOML (Bottlerocket),
PowerShell (Windows). The user data of the EC2NodeClass comes first and the generated part last; `Custom` AMIs get the
user data of the class only. Nodes register with the taints of the claim plus `karpenter.sh/unregistered`, which keeps
pods away until the labels of the claim are on the node.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from email import message_from_string
from email.message import Message
from typing import Any

from dovetail.cloud.aws.eks_cluster import ClusterFacts
from dovetail.cloud.aws.launch import userdata_bottlerocket, userdata_shell
from dovetail.manifest.yaml_output import to_yaml
from dovetail.model.ec2nodeclass import CUSTOM, EC2NodeClassSpec
from dovetail.model.labels import CAPACITY_TYPE, DO_NOT_SYNC_TAINTS
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.taints import UNREGISTERED_TAINT, Taint

_BOUNDARY = "//"
_RESERVED_DOMAINS = ("kubernetes.io", "k8s.io")
"""Kubelets may not set labels of these domains on their node; the controller sets them at registration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BootstrapConfig:
    """The cluster that a node joins, and the kubelet settings it joins with."""

    cluster_name: str
    cluster: ClusterFacts
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    kubelet: Mapping[str, Any]  # including maxPods
    local_disks: bool = False  # combined as RAID0 for pod storage


def bootstrap_config(
    claim: NodeClaim, capacity_type: str, spec: EC2NodeClassSpec, cluster: tuple[str, ClusterFacts]
) -> BootstrapConfig:
    """The bootstrap settings of a claim, apart from those that depend on the instance type."""
    kept = {key: value for key, value in claim.metadata.labels.items() if not _is_reserved(key)}
    own = {CAPACITY_TYPE: capacity_type}
    if spec.family != CUSTOM:
        own[DO_NOT_SYNC_TAINTS] = "true"  # another controller may remove a taint before the node is synced
    name, facts = cluster
    return BootstrapConfig(
        cluster_name=name,
        cluster=facts,
        labels=dict(sorted({**kept, **own}.items())),
        taints=(*claim.spec.taints, *claim.spec.startup_taints, UNREGISTERED_TAINT),
        kubelet=spec.kubelet or claim.spec.kubelet or {},
        local_disks=spec.instance_store_policy == "RAID0",
    )


def user_data(spec: EC2NodeClassSpec, bootstrap: BootstrapConfig) -> str:
    """The user data, base64-encoded."""
    return base64.b64encode(_plain(spec, bootstrap).encode()).decode()


def _plain(spec: EC2NodeClassSpec, bootstrap: BootstrapConfig) -> str:
    custom = spec.user_data or ""
    match spec.family:
        case "AL2023":
            return _archive(custom, ("application/node.eks.aws", _node_config(bootstrap)))
        case "AL2":
            return _archive(custom, ('text/x-shellscript; charset="us-ascii"', userdata_shell.al2(bootstrap)))
        case "Bottlerocket":
            return userdata_bottlerocket.bottlerocket(custom, bootstrap)
        case windows if windows.startswith("Windows"):
            return userdata_shell.windows(custom, bootstrap)
        case _:
            return custom


def _node_config(bootstrap: BootstrapConfig) -> str:
    kubelet: dict[str, Any] = {
        **bootstrap.kubelet,
        "registerWithTaints": [
            {"key": taint.key, **({"value": taint.value} if taint.value else {}), "effect": taint.effect}
            for taint in bootstrap.taints
        ],
    }
    spec: dict[str, Any] = {
        "cluster": {
            "name": bootstrap.cluster_name,
            "apiServerEndpoint": bootstrap.cluster.endpoint,
            "certificateAuthority": bootstrap.cluster.certificate_authority,
            "cidr": bootstrap.cluster.service_cidr,
        },
        "kubelet": {"config": kubelet, "flags": [f"--node-labels={userdata_shell.pairs(bootstrap.labels)}"]},
    }
    if bootstrap.local_disks:
        spec["instance"] = {"localStorage": {"strategy": "RAID0"}}
    config = {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": json.loads(json.dumps(spec))}
    return to_yaml(config, sort_keys=True)


def _archive(custom: str, generated: tuple[str, str]) -> str:
    """A MIME archive: the parts of the class's user data, then the generated part."""
    parts = [*_parts(custom), generated]
    body = "".join(f"--{_BOUNDARY}\nContent-Type: {kind}\n\n{text.strip()}\n\n" for kind, text in parts)
    return f'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="{_BOUNDARY}"\n\n{body}--{_BOUNDARY}--\n'


def _parts(custom: str) -> list[tuple[str, str]]:
    if not custom.strip():
        return []
    if custom.lstrip().startswith(("MIME-Version:", "Content-Type:")):
        message = message_from_string(custom.lstrip())
        parts = [part for part in message.walk() if not part.is_multipart()]
        return [(part.get("Content-Type", "text/plain"), _text(part)) for part in parts]
    config = custom.lstrip().startswith(("apiVersion:", "---")) and "node.eks.aws" in custom
    return [("application/node.eks.aws" if config else 'text/x-shellscript; charset="us-ascii"', custom)]


def _text(part: Message) -> str:
    payload = part.get_payload(decode=True)
    return payload.decode() if isinstance(payload, bytes) else str(part.get_payload())


def _is_reserved(key: str) -> bool:
    domain = key.partition("/")[0] if "/" in key else ""
    return any(domain == reserved or domain.endswith(f".{reserved}") for reserved in _RESERVED_DOMAINS)
