"""Labels, annotations, finalizers and their values, as Kubernetes, Karpenter and Dovetail define them."""

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
