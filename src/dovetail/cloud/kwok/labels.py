"""Names that Karpenter's kwok provider and KWOK itself put on nodes."""

GROUP = "karpenter.kwok.sh"
NODE_CLASS_KIND = "KWOKNodeClass"

INSTANCE_SIZE = "karpenter.kwok.sh/instance-size"
INSTANCE_FAMILY = "karpenter.kwok.sh/instance-family"
INSTANCE_CPU = "karpenter.kwok.sh/instance-cpu"
INSTANCE_MEMORY = "karpenter.kwok.sh/instance-memory"
INSTANCE_LABELS = frozenset({INSTANCE_SIZE, INSTANCE_FAMILY, INSTANCE_CPU, INSTANCE_MEMORY})

FAKE_NODE = "kwok.x-k8s.io/node"  # a label and an annotation: KWOK looks after nodes that carry it
FAKE = "fake"
PARTITION = "kwok-partition"
PRICE = "eks-node-viewer/instance-price"

PROVIDER_PREFIX = "kwok://"
