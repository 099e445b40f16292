"""The user data of AL2 and Windows AMIs: a script that calls the AMI's bootstrap script with kubelet flags."""

import re
from collections.abc import Iterator, Mapping
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dovetail.cloud.aws.launch.userdata import BootstrapConfig

_FLAGS = {
    "imageGCHighThresholdPercent": "image-gc-high-threshold",
    "imageGCLowThresholdPercent": "image-gc-low-threshold",
    "cpuCFSQuota": "cpu-cfs-quota",
}
_THRESHOLDS = frozenset({"evictionHard", "evictionSoft"})
_NOT_FLAGS = frozenset({"clusterDNS"})
_DNS_INDEX = 10
"""The index of the cluster DNS address in the service CIDR, as EKS assigns it."""


def pairs(values: Mapping[str, Any], sign: str = "=") -> str:
    """Key-value pairs as `a=1,b=2`, ordered by key."""
    return ",".join(f"{key}{sign}{value}" for key, value in sorted(values.items()))


def al2(bootstrap: "BootstrapConfig") -> str:
    """The shell script that calls the AL2 bootstrap script."""
    disks = " --local-disks raid0" if bootstrap.local_disks else ""
    return (
        "#!/bin/bash -xe\n"
        "exec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1\n"
        f"/etc/eks/bootstrap.sh '{bootstrap.cluster_name}' --apiserver-endpoint '{bootstrap.cluster.endpoint}' "
        f"--b64-cluster-ca '{bootstrap.cluster.certificate_authority}' --dns-cluster-ip '{dns_address(bootstrap)}' "
        f"--use-max-pods false{disks} --kubelet-extra-args '{kubelet_flags(bootstrap)}'\n"
    )


def windows(custom: str, bootstrap: "BootstrapConfig") -> str:
    """The PowerShell script: the user data of the class, then the call of the EKS bootstrap script."""
    before = f"{custom.strip()}\n" if custom.strip() else ""
    return (
        f"<powershell>\n{before}"
        '[string]$EKSBootstrapScriptFile = "$env:ProgramFiles\\Amazon\\EKS\\Start-EKSBootstrap.ps1"\n'
        f"& $EKSBootstrapScriptFile -EKSClusterName '{bootstrap.cluster_name}' "
        f"-APIServerEndpoint '{bootstrap.cluster.endpoint}' "
        f"-Base64ClusterCA '{bootstrap.cluster.certificate_authority}' "
        f"-DNSClusterIP '{dns_address(bootstrap)}' -KubeletExtraArgs '{kubelet_flags(bootstrap)}'\n</powershell>\n"
    )


def kubelet_flags(bootstrap: "BootstrapConfig") -> str:
    """Labels, taints and kubelet settings as kubelet flags."""
    taints = ",".join(f"{taint.key}={taint.value}:{taint.effect}" for taint in bootstrap.taints)
    node_flags = [f"--node-labels={pairs(bootstrap.labels)}", f"--register-with-taints={taints}"]
    return " ".join([*node_flags, *_settings(bootstrap.kubelet)])


def _settings(kubelet: Mapping[str, Any]) -> Iterator[str]:
    for name, value in sorted(kubelet.items()):
        if name in _NOT_FLAGS:
            continue
        flag = _FLAGS.get(name) or kebab(name)
        if isinstance(value, Mapping):
            yield f'--{flag}="{pairs(value, "<")}"' if name in _THRESHOLDS else f"--{flag}={pairs(value)}"
        else:
            yield f"--{flag}={str(value).lower() if isinstance(value, bool) else value}"


def dns_address(bootstrap: "BootstrapConfig") -> str:
    """The address of the cluster DNS: from the kubelet settings, else the EKS default in the service CIDR."""
    addresses = bootstrap.kubelet.get("clusterDNS") or ()
    if addresses:
        return str(addresses[0])
    return str(ip_network(bootstrap.cluster.service_cidr)[_DNS_INDEX]) if bootstrap.cluster.service_cidr else ""


def kebab(name: str) -> str:
    """`maxPods` as `max-pods`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", name).lower()
