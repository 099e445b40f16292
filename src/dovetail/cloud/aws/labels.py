"""Labels, annotations, finalizers, tags and resource names, as in Karpenter's AWS provider."""

from dovetail.model.ec2nodeclass import GROUP, NODE_CLASS_KIND
from dovetail.model.labels import NODEPOOL

NODE_CLASS_LABEL = f"{GROUP}/{NODE_CLASS_KIND.lower()}"
ZONE_ID = "topology.k8s.aws/zone-id"

INSTANCE_CATEGORY = f"{GROUP}/instance-category"
INSTANCE_FAMILY = f"{GROUP}/instance-family"
INSTANCE_GENERATION = f"{GROUP}/instance-generation"
INSTANCE_SIZE = f"{GROUP}/instance-size"
INSTANCE_CPU = f"{GROUP}/instance-cpu"
INSTANCE_CPU_MANUFACTURER = f"{GROUP}/instance-cpu-manufacturer"
INSTANCE_CPU_CLOCK = f"{GROUP}/instance-cpu-sustained-clock-speed-mhz"
INSTANCE_MEMORY = f"{GROUP}/instance-memory"
INSTANCE_EBS_BANDWIDTH = f"{GROUP}/instance-ebs-bandwidth"
INSTANCE_NETWORK_BANDWIDTH = f"{GROUP}/instance-network-bandwidth"
INSTANCE_LOCAL_NVME = f"{GROUP}/instance-local-nvme"
INSTANCE_HYPERVISOR = f"{GROUP}/instance-hypervisor"
INSTANCE_ENCRYPTION_IN_TRANSIT = f"{GROUP}/instance-encryption-in-transit-supported"
INSTANCE_FLEX = f"{GROUP}/instance-capability-flex"
INSTANCE_GPU_NAME = f"{GROUP}/instance-gpu-name"
INSTANCE_GPU_MANUFACTURER = f"{GROUP}/instance-gpu-manufacturer"
INSTANCE_GPU_COUNT = f"{GROUP}/instance-gpu-count"
INSTANCE_GPU_MEMORY = f"{GROUP}/instance-gpu-memory"
INSTANCE_ACCELERATOR_NAME = f"{GROUP}/instance-accelerator-name"
INSTANCE_ACCELERATOR_MANUFACTURER = f"{GROUP}/instance-accelerator-manufacturer"
INSTANCE_ACCELERATOR_COUNT = f"{GROUP}/instance-accelerator-count"
INSTANCE_TENANCY = f"{GROUP}/instance-tenancy"
RESERVATION_ID = f"{GROUP}/capacity-reservation-id"
RESERVATION_TYPE = f"{GROUP}/capacity-reservation-type"
RESERVATION_INTERRUPTIBLE = f"{GROUP}/capacity-reservation-interruptible"

INSTANCE_LABELS = frozenset(
    {
        INSTANCE_CATEGORY,
        INSTANCE_FAMILY,
        INSTANCE_GENERATION,
        INSTANCE_SIZE,
        INSTANCE_CPU,
        INSTANCE_CPU_MANUFACTURER,
        INSTANCE_CPU_CLOCK,
        INSTANCE_MEMORY,
        INSTANCE_EBS_BANDWIDTH,
        INSTANCE_NETWORK_BANDWIDTH,
        INSTANCE_LOCAL_NVME,
        INSTANCE_HYPERVISOR,
        INSTANCE_ENCRYPTION_IN_TRANSIT,
        INSTANCE_FLEX,
        INSTANCE_GPU_NAME,
        INSTANCE_GPU_MANUFACTURER,
        INSTANCE_GPU_COUNT,
        INSTANCE_GPU_MEMORY,
        INSTANCE_ACCELERATOR_NAME,
        INSTANCE_ACCELERATOR_MANUFACTURER,
        INSTANCE_ACCELERATOR_COUNT,
        INSTANCE_TENANCY,
    }
)
"""Labels that an instance type sets."""
OFFERING_LABELS = frozenset({ZONE_ID, RESERVATION_ID, RESERVATION_TYPE, RESERVATION_INTERRUPTIBLE})
"""Labels that an offering sets."""

CLASS_HASH = f"{GROUP}/ec2nodeclass-hash"
CLASS_HASH_VERSION = f"{GROUP}/ec2nodeclass-hash-version"
OWN_CLASS_HASH = "dovetail.sh/ec2nodeclass-hash"
INSTANCE_PROFILE_NAME = f"{GROUP}/instance-profile-name"
TERMINATION_FINALIZER = f"{GROUP}/termination"

CLUSTER_NAME_TAG = "eks:eks-cluster-name"
NODEPOOL_TAG = NODEPOOL
NODECLAIM_TAG = "karpenter.sh/nodeclaim"
NODE_CLASS_TAG = NODE_CLASS_LABEL
CLAIM_UID_TAG = "dovetail.sh/nodeclaim-uid"
"""A launch finds the instance of an earlier attempt for the same NodeClaim by this tag."""
PROVIDER_PREFIX = "aws:///"

NVIDIA_GPU = "nvidia.com/gpu"
AMD_GPU = "amd.com/gpu"
GAUDI = "habana.ai/gaudi"
NEURON = "aws.amazon.com/neuron"
NEURON_CORE = "aws.amazon.com/neuroncore"
POD_ENI = "vpc.amazonaws.com/pod-eni"
EFA = "vpc.amazonaws.com/efa"
PRIVATE_IPV4 = "vpc.amazonaws.com/PrivateIPv4Address"


def cluster_tag(cluster_name: str) -> str:
    """The tag key of resources that belong to this cluster."""
    return f"kubernetes.io/cluster/{cluster_name}"
