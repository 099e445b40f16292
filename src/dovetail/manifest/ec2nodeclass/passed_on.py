"""The shapes of settings that are passed on to EC2 or to the kubelet, and that the model reads as any mapping.

They exist for the schema alone: a value of another type would make the EC2NodeClass unreadable for Karpenter.
"""

from collections.abc import Mapping

import msgspec

from dovetail.manifest.ec2nodeclass import rules
from dovetail.manifest.ec2nodeclass.rules import RESERVABLE, SIGNALS
from dovetail.manifest.field_constraints import AMOUNT, INT32, Field
from dovetail.manifest.patterns import PERCENT_OR_QUANTITY
from dovetail.model.kube_object import ApiStruct

_COUNT = {**INT32, "minimum": 0}
_PERCENT = {**INT32, "minimum": 0, "maximum": 100}
_NAMES = (rules.keys_among(RESERVABLE), rules.NOT_NEGATIVE)
_SIGNALS = (rules.keys_among(SIGNALS),)
_EVERY_SIGNAL = {"maxProperties": len(SIGNALS)}


class ConnectionTracking(ApiStruct, frozen=True, kw_only=True):
    """Timeouts of tracked connections, in seconds."""

    tcp_established_timeout: int | None = None
    udp_stream_timeout: int | None = None
    udp_timeout: int | None = None


class CPUOptions(ApiStruct, frozen=True, kw_only=True):
    """CPU options of the instances."""

    nested_virtualization: str = ""


class KubeletSettings(ApiStruct, frozen=True, kw_only=True):
    """Settings of the kubelet."""

    cluster_dns: tuple[str, ...] = msgspec.field(default=(), name="clusterDNS")
    max_pods: int | None = None
    pods_per_core: int | None = None
    system_reserved: Mapping[str, str] = {}
    kube_reserved: Mapping[str, str] = {}
    eviction_hard: Mapping[str, str] = {}
    eviction_soft: Mapping[str, str] = {}
    eviction_soft_grace_period: Mapping[str, str] = {}
    eviction_max_pod_grace_period: int | None = None
    image_gc_high_threshold_percent: int | None = msgspec.field(default=None, name="imageGCHighThresholdPercent")
    image_gc_low_threshold_percent: int | None = msgspec.field(default=None, name="imageGCLowThresholdPercent")
    cpu_cfs_quota: bool | None = msgspec.field(default=None, name="cpuCFSQuota")


PASSED_ON_FIELDS: Mapping[type, Mapping[str, Field]] = {
    ConnectionTracking: {
        "tcp_established_timeout": Field(
            about="Of established TCP connections.", limits={**INT32, "minimum": 60, "maximum": 432000}
        ),
        "udp_stream_timeout": Field(about="Of UDP streams.", limits={**INT32, "minimum": 60, "maximum": 180}),
        "udp_timeout": Field(about="Of other UDP flows.", limits={**INT32, "minimum": 30, "maximum": 60}),
    },
    CPUOptions: {
        "nested_virtualization": Field(
            about="Whether instances can run virtual machines.", limits={"enum": ["enabled", "disabled"]}
        ),
    },
    KubeletSettings: {
        "cluster_dns": Field(about="Addresses of the DNS servers."),
        "max_pods": Field(about="The most pods on a node.", limits=_COUNT),
        "pods_per_core": Field(about="The most pods for each core.", limits=_COUNT),
        "system_reserved": Field(about="Reserved for the operating system.", each=AMOUNT, rules=_NAMES),
        "kube_reserved": Field(about="Reserved for Kubernetes.", each=AMOUNT, rules=_NAMES),
        "eviction_hard": Field(
            about="Thresholds at which pods are evicted at once.", each={"pattern": PERCENT_OR_QUANTITY}, rules=_SIGNALS
        ),
        "eviction_soft": Field(
            about="Thresholds at which pods are evicted after the grace period of the signal.",
            each={"pattern": PERCENT_OR_QUANTITY},
            rules=_SIGNALS,
        ),
        "eviction_soft_grace_period": Field(
            about="How long a soft threshold is exceeded before pods are evicted.",
            limits=_EVERY_SIGNAL,
            rules=(*_SIGNALS, rules.DURATIONS),
        ),
        "eviction_max_pod_grace_period": Field(about="The most seconds an evicted pod may take to stop.", limits=INT32),
        "image_gc_high_threshold_percent": Field(
            about="Disk usage at which unused images are removed.", limits=_PERCENT
        ),
        "image_gc_low_threshold_percent": Field(
            about="Disk usage down to which unused images are removed.", limits=_PERCENT
        ),
        "cpu_cfs_quota": Field(about="Whether CPU limits are enforced."),
    },
}
