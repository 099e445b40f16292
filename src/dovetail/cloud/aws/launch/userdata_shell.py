"""How AL2 and Windows images start: a script of theirs is called with flags for the kubelet."""

import re
from collections.abc import Iterator, Mapping
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dovetail.cloud.aws.launch.userdata import Boot

_FLAGS = {
    "imageGCHighThresholdPercent": "image-gc-high-threshold",
    "imageGCLowThresholdPercent": "image-gc-low-threshold",
    "cpuCFSQuota": "cpu-cfs-quota",
}
_THRESHOLDS = frozenset({"evictionHard", "evictionSoft"})
_ELSEWHERE = frozenset({"clusterDNS"})
_DNS = 10
"""The address of the cluster's DNS within its service range, as EKS sets it up."""


def pairs(values: Mapping[str, Any], sign: str = "=") -> str:
    """`a=1,b=2`, by name."""
    return ",".join(f"{key}{sign}{value}" for key, value in sorted(values.items()))


def al2(boot: "Boot") -> str:
    """The call of AL2's bootstrap script."""
    disks = " --local-disks raid0" if boot.local_disks else ""
    return (
        "#!/bin/bash -xe\n"
        "exec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1\n"
        f"/etc/eks/bootstrap.sh '{boot.cluster_name}' --apiserver-endpoint '{boot.cluster.endpoint}' "
        f"--b64-cluster-ca '{boot.cluster.certificate_authority}' --dns-cluster-ip '{dns_address(boot)}' "
        f"--use-max-pods false{disks} --kubelet-extra-args '{kubelet_flags(boot)}'\n"
    )


def windows(custom: str, boot: "Boot") -> str:
    """The call of EKS's bootstrap script for Windows, after what the user wrote."""
    before = f"{custom.strip()}\n" if custom.strip() else ""
    return (
        f"<powershell>\n{before}"
        '[string]$EKSBootstrapScriptFile = "$env:ProgramFiles\\Amazon\\EKS\\Start-EKSBootstrap.ps1"\n'
        f"& $EKSBootstrapScriptFile -EKSClusterName '{boot.cluster_name}' "
        f"-APIServerEndpoint '{boot.cluster.endpoint}' -Base64ClusterCA '{boot.cluster.certificate_authority}' "
        f"-DNSClusterIP '{dns_address(boot)}' -KubeletExtraArgs '{kubelet_flags(boot)}'\n</powershell>\n"
    )


def kubelet_flags(boot: "Boot") -> str:
    """Labels, taints and settings as flags."""
    taints = ",".join(f"{taint.key}={taint.value}:{taint.effect}" for taint in boot.taints)
    own = [f"--node-labels={pairs(boot.labels)}", f"--register-with-taints={taints}"]
    return " ".join([*own, *_settings(boot.kubelet)])


def _settings(kubelet: Mapping[str, Any]) -> Iterator[str]:
    for name, value in sorted(kubelet.items()):
        if name in _ELSEWHERE:
            continue
        flag = _FLAGS.get(name) or kebab(name)
        if isinstance(value, Mapping):
            yield f'--{flag}="{pairs(value, "<")}"' if name in _THRESHOLDS else f"--{flag}={pairs(value)}"
        else:
            yield f"--{flag}={str(value).lower() if isinstance(value, bool) else value}"


def dns_address(boot: "Boot") -> str:
    """Where pods ask for names: as the class says, else the usual address of the cluster's service range."""
    told = boot.kubelet.get("clusterDNS") or ()
    if told:
        return str(told[0])
    return str(ip_network(boot.cluster.service_cidr)[_DNS]) if boot.cluster.service_cidr else ""


def kebab(name: str) -> str:
    """`maxPods` as `max-pods`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", name).lower()
