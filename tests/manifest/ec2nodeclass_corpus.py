"""EC2NodeClasses that must be accepted, and those that must be rejected, as in `corpus`."""

from copy import deepcopy

from manifest.corpus import CHOICE, FORM, Case, named

TAGGED = [{"tags": {"karpenter.sh/discovery": "demo"}}]
ALIAS = [{"alias": "al2023@latest"}]


def ec2_class(version="v1", **spec):
    """The smallest valid EC2NodeClass with these spec fields; None removes a field."""
    small = {"subnetSelectorTerms": TAGGED, "securityGroupSelectorTerms": TAGGED, "role": "nodes"}
    small |= {"amiSelectorTerms": ALIAS} if version == "v1" else {"amiFamily": "AL2"}
    return deepcopy(
        {
            "apiVersion": f"karpenter.k8s.aws/{version}",
            "kind": "EC2NodeClass",
            "metadata": {"name": "default"},
            "spec": {name: value for name, value in (small | spec).items() if value is not None},
        }
    )


def volume(**ebs):
    """A class with one volume."""
    return ec2_class(blockDeviceMappings=[{"deviceName": "/dev/xvda", "ebs": ebs}])


def images(*terms, **spec):
    """A class with these image terms."""
    return ec2_class(amiSelectorTerms=list(terms), **{"amiFamily": "AL2023", **spec})


def interface(index=0):
    """A network interface of the first card."""
    return {"networkCardIndex": 0, "deviceIndex": index, "interfaceType": "interface"}


def kubelet(**settings):
    """A class with these kubelet settings."""
    return ec2_class(kubelet=settings)


SELECTORS = [
    Case("ec2: smallest", ec2_class()),
    Case("ec2: smallest v1beta1", ec2_class("v1beta1")),
    Case("ec2: long name", named(ec2_class(), "x" * 64), "at most 63", True),
    Case("ec2: no spec", {**ec2_class(), "spec": {}}, "is required"),
    Case("ec2: no subnets", ec2_class(subnetSelectorTerms=None), "is required"),
    Case("ec2: empty subnets", ec2_class(subnetSelectorTerms=[]), "at least 1"),
    Case("ec2: 31 subnets", ec2_class(subnetSelectorTerms=TAGGED * 31), "at most 30"),
    Case("ec2: subnet of nothing", ec2_class(subnetSelectorTerms=[{}]), "at least one of ['tags', 'id']"),
    Case("ec2: subnet by id", ec2_class(subnetSelectorTerms=[{"id": "subnet-12ab"}, *TAGGED])),
    Case("ec2: subnet by wrong id", ec2_class(subnetSelectorTerms=[{"id": "sg-12ab"}]), FORM),
    Case(
        "ec2: subnet twice", ec2_class(subnetSelectorTerms=[{"id": "subnet-1", **TAGGED[0]}]), "'id' cannot be combined"
    ),
    Case(
        "ec2: one subnet twice",
        ec2_class(subnetSelectorTerms=[{"id": "subnet-1", **TAGGED[0]}, *TAGGED]),
        "'id' cannot be combined",
        True,
    ),
    Case("ec2: odd subnet", ec2_class(subnetSelectorTerms=[{"id": "my subnet-1"}]), FORM, True),
    Case("ec2: any value", ec2_class(subnetSelectorTerms=[{"tags": {"a": "*"}}])),
    Case("ec2: no value", ec2_class(subnetSelectorTerms=[{"tags": {"a": ""}}]), "neither empty keys nor empty values"),
    Case("ec2: no groups", ec2_class(securityGroupSelectorTerms=[]), "at least 1"),
    Case("ec2: group by name", ec2_class(securityGroupSelectorTerms=[{"name": "nodes"}, {"id": "sg-1"}])),
    Case(
        "ec2: group by name and tags",
        ec2_class(securityGroupSelectorTerms=[{"name": "nodes", **TAGGED[0]}]),
        "'name' cannot be combined",
    ),
    Case(
        "ec2: reservation",
        ec2_class(capacityReservationSelectorTerms=[{"id": "cr-1"}, {"tags": {"a": "b"}, "ownerID": "123456789012"}]),
    ),
    Case(
        "ec2: reservation by id and owner",
        ec2_class(capacityReservationSelectorTerms=[{"id": "cr-1", "ownerID": "123456789012"}]),
        "'id' cannot be combined",
    ),
    Case(
        "ec2: odd reservation",
        ec2_class(capacityReservationSelectorTerms=[{"instanceMatchCriteria": "some"}]),
        CHOICE,
    ),
    Case("ec2: placement group", ec2_class(placementGroupSelector={"name": "a"})),
    Case("ec2: placement groups", ec2_class(placementGroupSelector={"name": "a", "id": "pg-1"}), "exactly one of"),
]
IMAGES = [
    Case("ec2: no images", ec2_class(amiSelectorTerms=None), "is required"),
    Case("ec2: no images, v1beta1", ec2_class("v1beta1", amiFamily="Bottlerocket")),
    Case("ec2: images", images({"id": "ami-1"}, {"name": "my-*", "owner": "self"}, {"ssmParameter": "/my/ami"})),
    Case("ec2: images by owner", images({"owner": "self"}), "at least one of"),
    Case("ec2: image by id and name", images({"id": "ami-1", "name": "a"}), "'id' cannot be combined"),
    Case(
        "ec2: image by parameter and name",
        images({"ssmParameter": "a", "name": "a"}),
        "'ssmParameter' cannot be combined",
        True,
    ),
    Case("ec2: alias among others", images({"alias": "al2023@latest"}, {"id": "ami-1"}), "is the only one"),
    Case("ec2: alias and id", images({"alias": "al2023@latest", "id": "ami-1"}), "'alias' cannot be combined"),
    Case("ec2: pinned alias", images({"alias": "bottlerocket@v1.20.0"}, amiFamily=None)),
    Case("ec2: alias without version", images({"alias": "al2023"}), "does not have the expected form"),
    Case("ec2: alias of no family", images({"alias": "ubuntu@latest"}, amiFamily=None), "the family of an alias"),
    Case("ec2: pinned Windows", images({"alias": "windows2022@v1"}, amiFamily=None), "cannot be pinned"),
    Case("ec2: Windows", images({"alias": "windows2022@latest"}, amiFamily=None)),
    Case("ec2: family of the alias", images({"alias": "al2023@latest"})),
    Case("ec2: custom with alias", images({"alias": "al2023@latest"}, amiFamily="Custom")),
    Case("ec2: other family", images({"alias": "al2@latest"}), "must be the family of the alias"),
    Case("ec2: no family", images({"id": "ami-1"}, amiFamily=None), "amiFamily must be set"),
    Case("ec2: unknown family", images({"id": "ami-1"}, amiFamily="Ubuntu"), CHOICE),
    Case("ec2: family that was taken back", ec2_class("v1beta1", amiFamily="Ubuntu"), CHOICE),
    Case("ec2: image with a placeholder", images({"id": "$AMI_NEW"}), "still contains the placeholder $AMI_NEW"),
    Case("ec2: custom of nothing", ec2_class("v1beta1", amiFamily="Custom"), "Custom needs amiSelectorTerms"),
]
REST = [
    Case("ec2: profile", ec2_class(role=None, instanceProfile="mine")),
    Case("ec2: no identity", ec2_class(role=None), "exactly one of ['role', 'instanceProfile']"),
    Case("ec2: two identities", ec2_class(instanceProfile="mine"), "exactly one of ['role', 'instanceProfile']"),
    Case("ec2: empty role", ec2_class(role=""), "may not be empty"),
    Case("ec2: tags", ec2_class(tags={"team": "a", "empty": ""})),
    Case("ec2: our tags", ec2_class(tags={"karpenter.sh/nodepool": "a"}), "are reserved for the controller"),
    Case("ec2: cluster tag", ec2_class(tags={"kubernetes.io/cluster/demo": "a"}), "are reserved for the controller"),
    Case("ec2: volume", volume(volumeSize="100Gi", volumeType="gp3", iops=3000, throughput=125, encrypted=True)),
    Case("ec2: volume of no size", volume(volumeType="gp3"), "a volumeSize or a snapshotID"),
    Case("ec2: volume from snapshot", volume(snapshotID="snap-1", volumeInitializationRate=100)),
    Case("ec2: eager volume", volume(volumeSize="1Ti", volumeInitializationRate=100), "needs a snapshotID"),
    Case("ec2: volume in bytes", volume(volumeSize="20"), FORM),
    Case("ec2: volume of no type", volume(volumeSize="20Gi", volumeType="gp9"), CHOICE),
    Case(
        "ec2: two root volumes",
        ec2_class(blockDeviceMappings=[{"rootVolume": True, "ebs": {"volumeSize": "1Gi"}}] * 2),
        "at most one of blockDeviceMappings",
    ),
    Case("ec2: metadata", ec2_class(metadataOptions={"httpTokens": "optional", "httpPutResponseHopLimit": 64})),
    Case("ec2: too many hops", ec2_class(metadataOptions={"httpPutResponseHopLimit": 65}), "must be at most 64"),
    Case("ec2: local disks", ec2_class(instanceStorePolicy="RAID0")),
    Case("ec2: local disks otherwise", ec2_class(instanceStorePolicy="RAID1"), CHOICE),
    Case("ec2: interfaces", ec2_class(networkInterfaces=[interface(), interface(1)])),
    Case("ec2: interfaces in one place", ec2_class(networkInterfaces=[interface()] * 2), "different card and device"),
    Case("ec2: half an interface", ec2_class(networkInterfaces=[{"deviceIndex": 0}]), "is required"),
    Case("ec2: no primary interface", ec2_class(networkInterfaces=[interface(1)]), "need a primary one"),
    Case("ec2: passed on", ec2_class(cpuOptions={"coreCount": 2}, connectionTracking={"udpTimeout": 30})),
    Case("ec2: tracking in words", ec2_class(connectionTracking={"udpTimeout": "30s"}), "must be a whole number"),
    Case("ec2: tracking of nothing", ec2_class(connectionTracking={}), "must have at least one of"),
    Case(
        "ec2: kubelet",
        kubelet(
            maxPods=20,
            kubeReserved={"cpu": "200m", "memory": "100Mi"},
            evictionHard={"memory.available": "5%", "nodefs.available": "1Gi"},
            evictionSoft={"memory.available": "500Mi"},
            evictionSoftGracePeriod={"memory.available": "1m"},
            clusterDNS=["10.0.1.100"],
        ),
    ),
    Case("ec2: pods in words", kubelet(maxPods="many"), "must be a whole number"),
    Case(
        "ec2: reserve of nothing known",
        kubelet(kubeReserved={"gpu": "1"}),
        "is not a name that the kubelet supports",
    ),
    Case("ec2: negative reserve", kubelet(systemReserved={"cpu": "-1"}), "must not be negative"),
    Case("ec2: too much", kubelet(evictionHard={"memory.available": "101%"}), FORM),
    Case("ec2: no grace", kubelet(evictionSoft={"memory.available": "5%"}), "has no entry in"),
    Case(
        "ec2: garbage",
        kubelet(imageGCHighThresholdPercent=80, imageGCLowThresholdPercent=80),
        "must be greater than",
    ),
]
EC2_CASES = [*SELECTORS, *IMAGES, *REST]
