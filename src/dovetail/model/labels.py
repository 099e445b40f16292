"""Labels, annotations, finalizers and their values, as Kubernetes, Karpenter and Dovetail define them."""

from collections.abc import Mapping
from difflib import get_close_matches

GROUP = "karpenter.sh"

NODEPOOL = "karpenter.sh/nodepool"
CAPACITY_TYPE = "karpenter.sh/capacity-type"
REGISTERED = "karpenter.sh/registered"
INITIALIZED = "karpenter.sh/initialized"
DO_NOT_SYNC_TAINTS = "karpenter.sh/do-not-sync-taints"
EXCLUDE_FROM_LOAD_BALANCERS = "node.kubernetes.io/exclude-from-external-load-balancers"

ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
ARCH = "kubernetes.io/arch"
OS = "kubernetes.io/os"
HOSTNAME = "kubernetes.io/hostname"
WINDOWS_BUILD = "node.kubernetes.io/windows-build"

DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
NODEPOOL_HASH = "karpenter.sh/nodepool-hash"
NODEPOOL_HASH_VERSION = "karpenter.sh/nodepool-hash-version"
OWN_NODEPOOL_HASH = "dovetail.sh/nodepool-hash"
TERMINATION_TIMESTAMP = "karpenter.sh/nodeclaim-termination-timestamp"
DECISION = "dovetail.sh/decision"
NODE_CLASS_STATE = "dovetail.sh/nodeclass-state"
"""On a NodePool: a digest of its node class and of what the node class resolves to."""
MIN_VALUES_RELAXED = "karpenter.sh/nodeclaim-min-values-relaxed"
PLANNED_PODS = "dovetail.sh/planned-pods"
"""On a NodeClaim: the uids of the pending pods it was launched for; its node starts closed."""
INTERRUPT = "dovetail.sh/interrupt"
EVICT_PROTECTED = "dovetail.sh/evict-protected-pods"
INSTANCE = "dovetail.sh/instance"
LOST = "lost"

TERMINATION_FINALIZER = "karpenter.sh/termination"

SPOT = "spot"
ON_DEMAND = "on-demand"
RESERVED = "reserved"
CAPACITY_TYPES = (RESERVED, SPOT, ON_DEMAND)

WELL_KNOWN = frozenset({NODEPOOL, ZONE, REGION, INSTANCE_TYPE, ARCH, OS, CAPACITY_TYPE, WINDOWS_BUILD})
"""Labels that a node is assumed to get when it is launched; providers add more."""

RESTRICTED = frozenset({HOSTNAME})
RESTRICTED_DOMAINS = frozenset({GROUP})


def is_restricted(key: str) -> bool:
    """Whether users may neither set nor require this label, because the controller sets it."""
    if key in WELL_KNOWN:
        return False
    domain = key.partition("/")[0] if "/" in key else ""
    return key in RESTRICTED or any(domain == held or domain.endswith("." + held) for held in RESTRICTED_DOMAINS)


PROVIDER_LABELS: Mapping[str, frozenset[str]] = {
    "karpenter.k8s.aws": frozenset(
        (
            "ec2nodeclass",
            "capacity-reservation-id",
            "capacity-reservation-interruptible",
            "capacity-reservation-type",
            "instance-accelerator-count",
            "instance-accelerator-manufacturer",
            "instance-accelerator-name",
            "instance-capability-flex",
            "instance-category",
            "instance-cpu",
            "instance-cpu-manufacturer",
            "instance-cpu-sustained-clock-speed-mhz",
            "instance-ebs-bandwidth",
            "instance-encryption-in-transit-supported",
            "instance-family",
            "instance-generation",
            "instance-gpu-count",
            "instance-gpu-manufacturer",
            "instance-gpu-memory",
            "instance-gpu-name",
            "instance-hypervisor",
            "instance-local-nvme",
            "instance-memory",
            "instance-network-bandwidth",
            "instance-size",
            "instance-tenancy",
            "nitro-sandbox",
            "placement-group-id",
            "placement-group-partition",
        )
    ),
    "karpenter.kwok.sh": frozenset(
        ("kwoknodeclass", "instance-cpu", "instance-family", "instance-memory", "instance-size")
    ),
}
"""The label domains of the providers, with the names that each provider defines, as in Karpenter's CRDs."""


def provider_domain(key: str) -> str:
    """The provider's domain that a label belongs to (`sub.karpenter.k8s.aws` included), or empty text."""
    domain = key.partition("/")[0] if "/" in key else ""
    return next((each for each in PROVIDER_LABELS if domain == each or domain.endswith("." + each)), "")


def is_node_class_label(key: str) -> bool:
    """Whether it names the node class of an instance, such as `karpenter.k8s.aws/ec2nodeclass`."""
    return bool(provider_domain(key)) and key.endswith("nodeclass")


def unknown_provider_label(key: str) -> str:
    """Why no instance has this label, which is in a provider's domain but not defined there; else empty text."""
    domain = provider_domain(key)
    if not domain or (key.startswith(f"{domain}/") and key.removeprefix(f"{domain}/") in PROVIDER_LABELS[domain]):
        return ""
    return f"is in the label domain {domain} of the provider, which does not define it: no instance has this label"


def provider_label_remedy(key: str) -> str:
    """What to write instead of an unknown label in a provider's domain."""
    domain = provider_domain(key)
    label_by_name = {each.partition("/")[2]: each for each in sorted(WELL_KNOWN)}
    label_by_name |= {name: f"{domain}/{name}" for name in sorted(PROVIDER_LABELS[domain])}
    similar = get_close_matches(key.partition("/")[2].lower(), label_by_name, n=1)
    return f"did you mean {label_by_name[similar[0]]}?" if similar else "use a label in another domain"
