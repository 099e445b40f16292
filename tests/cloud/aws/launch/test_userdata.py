"""The user data of each AMI family."""

import base64
import tomllib

import pytest

from cloud.aws.claims import claim
from cloud.aws.nodes import node_config
from dovetail.cloud.aws.eks_cluster import ClusterFacts
from dovetail.cloud.aws.launch.userdata import bootstrap_config, user_data
from dovetail.cloud.aws.launch.userdata_shell import kebab
from dovetail.manifest.validation import read
from dovetail.model.taints import Taint
from manifest.ec2nodeclass_corpus import ec2_class

FACTS = ClusterFacts("1.31", "https://api.example", "Q0E=", "10.100.0.0/16")
KUBELET = {"maxPods": 20, "evictionHard": {"memory.available": "5%"}, "kubeReserved": {"cpu": "100m"}}


def told(alias, taint="a", **spec):
    _, value = read(ec2_class(amiSelectorTerms=[{"alias": f"{alias}@latest"}], **spec))
    asked = claim(taints=(Taint("dedicated", taint, "NoSchedule"),))
    asked.metadata.labels["topology.kubernetes.io/zone"] = "a"
    encoded = user_data(value.spec, bootstrap_config(asked, "spot", value.spec, ("demo", FACTS)))
    return base64.b64decode(encoded).decode()


def test_al2_calls_its_script_after_what_the_user_wrote():
    text = told("al2", userData="#!/bin/bash\necho mine", kubelet=KUBELET)
    assert text.index("echo mine") < text.index("/etc/eks/bootstrap.sh 'demo'")
    assert "--apiserver-endpoint 'https://api.example' --b64-cluster-ca 'Q0E=' --dns-cluster-ip '10.100.0.10'" in text
    assert "--register-with-taints=dedicated=a:NoSchedule,karpenter.sh/unregistered=:NoExecute" in text
    assert '--eviction-hard="memory.available<5%" --kube-reserved=cpu=100m --max-pods=20' in text
    assert "karpenter.sh/capacity-type=spot" in text
    assert "karpenter.sh/do-not-sync-taints=true" in text
    assert "topology.kubernetes.io/zone" not in text  # a kubelet may not set it


def test_bottlerocket_settings_go_over_those_of_the_user():
    mine = '[settings.kubernetes]\ncluster-name = "other"\n"log-level" = 3\n[settings.host]\nname = "a \\"b\\""\n'
    settings = tomllib.loads(told("bottlerocket", userData=mine, kubelet=KUBELET))["settings"]
    kubernetes = settings["kubernetes"]
    assert (kubernetes["cluster-name"], kubernetes["log-level"], settings["host"]["name"]) == ("demo", 3, 'a "b"')
    assert kubernetes["node-taints"] == {"dedicated": ["a:NoSchedule"], "karpenter.sh/unregistered": [":NoExecute"]}
    assert kubernetes["node-labels"]["karpenter.sh/nodepool"] == "default"
    assert (kubernetes["max-pods"], kubernetes["eviction-hard"]) == (20, {"memory.available": "5%"})
    assert kubernetes["cluster-dns-ip"] == "10.100.0.10"


def test_bottlerocket_joins_local_disks():
    settings = tomllib.loads(told("bottlerocket", instanceStorePolicy="RAID0"))["settings"]
    assert settings["bootstrap-commands"]["000-mount-instance-storage"]["mode"] == "always"


def test_windows_calls_its_script_in_powershell():
    text = told("windows2022", userData="Write-Host mine")
    assert text.startswith("<powershell>\nWrite-Host mine\n")
    assert "-EKSClusterName 'demo'" in text
    assert text.endswith("</powershell>\n")


MIME = (
    'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="B"\n\n--B\nContent-Type: application/node.eks.aws\n\n'
    "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {mine: 1}\n\n--B--\n"
)


@pytest.mark.parametrize("mine", [MIME, "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {mine: 1}\n"])
def test_al2023_keeps_the_parts_of_the_user_and_appends_its_part(mine):
    text = told("al2023", userData=mine, instanceStorePolicy="RAID0")
    assert text.count("Content-Type: application/node.eks.aws") == 2
    assert text.index("mine: 1") < text.index("apiServerEndpoint")
    config = node_config(base64.b64encode(text.encode()))["spec"]
    assert config["instance"] == {"localStorage": {"strategy": "RAID0"}}
    assert config["cluster"]["cidr"] == "10.100.0.0/16"


@pytest.mark.parametrize("value", ["y", "N", "1e3", "0o14"])
def test_al2023_quotes_taint_values_that_go_reads_as_another_type(value):
    assert f"value: '{value}'\n" in told("al2023", taint=value)


def test_custom_images_get_what_the_user_wrote_and_nothing_else():
    assert told("al2023", amiFamily="Custom", userData="mine alone") == "mine alone"


@pytest.mark.parametrize(
    ("name", "spelled"),
    [
        ("maxPods", "max-pods"),
        ("cpuCFSQuota", "cpu-cfs-quota"),
        ("imageGCHighThresholdPercent", "image-gc-high-threshold-percent"),
    ],
)
def test_settings_are_spelled_as_flags(name, spelled):
    assert kebab(name) == spelled
