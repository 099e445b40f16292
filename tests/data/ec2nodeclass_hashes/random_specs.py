"""Prints 2,500 random EC2NodeClasses as the API server returns them, one a line: the input of main.go.

Every field of Karpenter's v1 is written in some of them. Lists, maps and texts are sometimes empty, because Karpenter's
hash tells them from absent ones. `metadataOptions` is always complete: the CRD has a default for each of its fields.
"""

import base64
import json
import random

COUNT = 2500
_CHOOSE = random.Random(5)  # noqa: S311 - test data
_SIGNALS = ("memory.available", "nodefs.available", "imagefs.inodesFree", "pid.available")
_AMOUNTS = ("100m", "1", "0.5", "1024Mi", "1Gi", "2000Ki", "5%", "10.5%", "1e3", "")
_FAMILIES = ("AL2", "AL2023", "Bottlerocket", "Custom", "Windows2019", "Windows2022", "Windows2025")
_SWITCH = ("enabled", "disabled")
_SIZES = ("1Gi", "20Gi", "1024Gi", "2048Gi", "1000G", "64T", "1Ti", "58Ti", "512Gi", "1500G", "59000Gi")


def _text(longest=12):
    letters = "abcXYZ019-_./:=+ äß漢\n"
    return "".join(_CHOOSE.choice(letters) for _ in range(_CHOOSE.randint(0, longest)))


def _some(fields, chance=0.3):
    """A random part of the fields; each value is made by its function."""
    return {name: make() for name, make in fields.items() if _CHOOSE.random() < chance}


def _texts():
    return {_text() or "k": _text() for _ in range(_CHOOSE.randint(0, 3))}


def _amounts(*names):
    return lambda: {name: _CHOOSE.choice(_AMOUNTS) for name in names if _CHOOSE.random() < 0.5}


def _number(lowest, highest):
    return lambda: _CHOOSE.choice((lowest, highest, _CHOOSE.randint(lowest, highest)))


def _one_of(*values):
    return lambda: _CHOOSE.choice(values)


def _list(make, most=3):
    return lambda: [make() for _ in range(_CHOOSE.randint(0, most))]


def _durations():
    spans = ("0s", "30s", "1m30s", "1.5h", "100ms", "1ns", "0")
    return {name: _CHOOSE.choice(spans) for name in _SIGNALS if _CHOOSE.random() < 0.5}


_BOOL = _one_of(True, False)
_KUBELET = {
    "clusterDNS": _list(_one_of("10.0.0.10", "fd00::a", "10.0.0.10")),
    "maxPods": _number(0, 2**31 - 1),
    "podsPerCore": _number(0, 100),
    "systemReserved": _amounts("cpu", "memory", "ephemeral-storage", "pid"),
    "kubeReserved": _amounts("cpu", "memory", "ephemeral-storage", "pid"),
    "evictionHard": _amounts(*_SIGNALS),
    "evictionSoft": _amounts(*_SIGNALS),
    "evictionSoftGracePeriod": _durations,
    "evictionMaxPodGracePeriod": _number(-1, 600),
    "imageGCHighThresholdPercent": _number(0, 100),
    "imageGCLowThresholdPercent": _number(0, 100),
    "cpuCFSQuota": _BOOL,
}
_VOLUME = {
    "deleteOnTermination": _BOOL,
    "encrypted": _BOOL,
    "iops": _number(1, 64000),
    "kmsKeyID": _text,
    "snapshotID": _text,
    "throughput": _number(1, 1000),
    "volumeInitializationRate": _number(100, 300),
    "volumeSize": _one_of(*_SIZES),
    "volumeType": _one_of("gp3", "io2", "standard"),
}
_DEVICE = {"deviceName": _text, "ebs": lambda: _some(_VOLUME, 0.5), "rootVolume": _BOOL}
_SPEC = {
    "placementGroupSelector": lambda: {_CHOOSE.choice(("name", "id")): f"pg-{_text()}"},
    "associatePublicIPAddress": _BOOL,
    "ipPrefixCount": _number(0, 9),
    "userData": lambda: _text(60),
    "tags": _texts,
    "kubelet": lambda: _some(_KUBELET),
    "blockDeviceMappings": _list(lambda: _some(_DEVICE, 0.7)),
    "instanceStorePolicy": _one_of("RAID0"),
    "networkInterfaces": _list(
        lambda: {
            "networkCardIndex": _CHOOSE.randint(0, 2),
            "deviceIndex": _CHOOSE.randint(0, 2),
            "interfaceType": _CHOOSE.choice(("interface", "efa-only")),
        }
    ),
    "detailedMonitoring": _BOOL,
    "connectionTracking": lambda: _some(
        {
            "tcpEstablishedTimeout": _number(60, 432000),
            "udpStreamTimeout": _number(60, 180),
            "udpTimeout": _number(30, 60),
        }
    ),
    "context": _text,
    "cpuOptions": lambda: _some({"nestedVirtualization": _one_of(*_SWITCH)}, 0.7),
    "capacityReservationSelectorTerms": _list(lambda: {"id": "cr-1"}),
}


def _identity():
    return {_CHOOSE.choice(("role", "instanceProfile")): _text() or "nodes"}


def _images():
    if _CHOOSE.random() < 0.5:
        family = _CHOOSE.choice([each for each in _FAMILIES if each != "Custom"])
        terms = [{"alias": f"{family.lower()}@latest"}]
        return {"amiSelectorTerms": terms, **_some({"amiFamily": _one_of(family, "Custom")})}
    return {"amiSelectorTerms": [{"id": "ami-1"}, {"name": _text()}], "amiFamily": _CHOOSE.choice(_FAMILIES)}


def _metadata_options():
    return {
        "httpEndpoint": _CHOOSE.choice(_SWITCH),
        "httpProtocolIPv6": _CHOOSE.choice(_SWITCH),
        "httpPutResponseHopLimit": _CHOOSE.randint(1, 64),
        "httpTokens": _CHOOSE.choice(("required", "optional")),
    }


def _document():
    terms = {"subnetSelectorTerms": [{"tags": {"a": _text()}}], "securityGroupSelectorTerms": [{"id": "sg-1"}]}
    spec = {**terms, **_images(), **_identity(), **_some(_SPEC), "metadataOptions": _metadata_options()}
    return {"spec": spec, "caBundle": base64.b64encode(_text(40).encode()).decode()}


if __name__ == "__main__":
    for _ in range(COUNT):
        print(json.dumps(_document(), ensure_ascii=False))  # noqa: T201 - the output of this script
