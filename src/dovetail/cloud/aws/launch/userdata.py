"""What an instance is told when it starts, so that it joins the cluster as the node its NodeClaim asks for.

Every family of images has a language of its own. What the user wrote comes first and ours last; `Custom` images get
what the user wrote and nothing else. Nodes register with the claim's taints and one more that keeps pods away until
the claim's labels are on the node.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from email import message_from_string
from email.message import Message
from typing import Any

import yaml

from dovetail.cloud.aws.eks_cluster import ClusterFacts
from dovetail.cloud.aws.launch import userdata_bottlerocket, userdata_shell
from dovetail.model.ec2nodeclass import CUSTOM, EC2NodeClassSpec
from dovetail.model.labels import CAPACITY_TYPE, DO_NOT_SYNC_TAINTS
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.taints import UNREGISTERED_TAINT, Taint

_BOUNDARY = "//"
_RESERVED_DOMAINS = ("kubernetes.io", "k8s.io")
"""A kubelet may not set labels of these on its own node; they come with registration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Boot:
    """One kind of start: cluster and node."""

    cluster_name: str
    cluster: ClusterFacts
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    kubelet: Mapping[str, Any]  # with maxPods settled
    local_disks: bool = False  # joined into one for pods


def boot_of(claim: NodeClaim, capacity_type: str, spec: EC2NodeClassSpec, cluster: tuple[str, ClusterFacts]) -> Boot:
    """How nodes of a claim start, apart from what differs between machines."""
    kept = {key: value for key, value in claim.metadata.labels.items() if not _is_reserved(key)}
    own = {CAPACITY_TYPE: capacity_type}
    if spec.family != CUSTOM:
        own[DO_NOT_SYNC_TAINTS] = "true"  # what the kubelet registered may be taken off again before we look
    name, facts = cluster
    return Boot(
        cluster_name=name,
        cluster=facts,
        labels=dict(sorted({**kept, **own}.items())),
        taints=(*claim.spec.taints, *claim.spec.startup_taints, UNREGISTERED_TAINT),
        kubelet=spec.kubelet or claim.spec.kubelet or {},
        local_disks=spec.instance_store_policy == "RAID0",
    )


def user_data(spec: EC2NodeClassSpec, boot: Boot) -> str:
    """The user data of an instance, in base64 as EC2 takes it."""
    return base64.b64encode(_plain(spec, boot).encode()).decode()


def _plain(spec: EC2NodeClassSpec, boot: Boot) -> str:
    custom = spec.user_data or ""
    match spec.family:
        case "AL2023":
            return _archive(custom, ("application/node.eks.aws", _node_config(boot)))
        case "AL2":
            return _archive(custom, ('text/x-shellscript; charset="us-ascii"', userdata_shell.al2(boot)))
        case "Bottlerocket":
            return userdata_bottlerocket.bottlerocket(custom, boot)
        case windows if windows.startswith("Windows"):
            return userdata_shell.windows(custom, boot)
        case _:
            return custom


def _node_config(boot: Boot) -> str:
    kubelet: dict[str, Any] = {
        **boot.kubelet,
        "registerWithTaints": [
            {"key": taint.key, **({"value": taint.value} if taint.value else {}), "effect": taint.effect}
            for taint in boot.taints
        ],
    }
    told: dict[str, Any] = {
        "cluster": {
            "name": boot.cluster_name,
            "apiServerEndpoint": boot.cluster.endpoint,
            "certificateAuthority": boot.cluster.certificate_authority,
            "cidr": boot.cluster.service_cidr,
        },
        "kubelet": {"config": kubelet, "flags": [f"--node-labels={userdata_shell.pairs(boot.labels)}"]},
    }
    if boot.local_disks:
        told["instance"] = {"localStorage": {"strategy": "RAID0"}}
    config = {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": json.loads(json.dumps(told))}
    return yaml.safe_dump(config, sort_keys=True)


def _archive(custom: str, own: tuple[str, str]) -> str:
    """A MIME archive: the parts of the user, whatever they wrote, and ours last."""
    parts = [*_parts(custom), own]
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
