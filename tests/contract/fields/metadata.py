"""Metadata: names, labels, annotations, finalizers, owners."""

from typing import Any

from contract.fields.documents import (
    attachment,
    config_map,
    csi_node,
    namespace,
    node,
    pod,
    priority_class,
    storage_class,
    volume,
    workload,
)
from contract.fields.table import New, case_of

LONG = "a" * 63
UID = "0b4d7a3e-0000-4000-8000-000000000000"


def named(document: dict[str, Any], name: str, **meta: Any) -> dict[str, Any]:
    return {**document, "metadata": {"name": name, **meta}}


def owned(*references: dict[str, Any]) -> dict[str, Any]:
    return config_map({"ownerReferences": list(references)})


def owner(**parts: Any) -> dict[str, Any]:
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": UID, **parts}
    return {name: value for name, value in reference.items() if value is not None}


NAMES = (
    New("no name", named(config_map(), ""), "Invalid metadata.name"),
    New("capitals in a name", named(config_map(), "Web"), "Invalid metadata.name"),
    New("an underscore in a name", named(config_map(), "a_b"), "Invalid metadata.name"),
    New("a slash in a name", named(config_map(), "a/b"), "Invalid metadata.name"),
    New("a percent sign in a name", named(config_map(), "a%b"), "Invalid metadata.name"),
    New("only a dot", named(config_map(), "."), "Invalid metadata.name"),
    New("a dash at the end", named(config_map(), "a-"), "Invalid metadata.name"),
    New("two dots in a row", named(config_map(), "a..b"), "Invalid metadata.name"),
    New("dots in a name", named(config_map(), "a.b"), ""),
    New("a digit first", named(config_map(), "1a"), ""),
    New("253 characters", named(config_map(), "b" * 253), ""),
    New("254 characters", named(config_map(), "b" * 254), "Invalid metadata.name"),
    New("a pod with dots", named(pod(), "a.b"), ""),
    New("a pod with 254 characters", named(pod(), "b" * 254), "Invalid metadata.name"),
    New("a pod with capitals", named(pod(), "Web"), "Invalid metadata.name"),
    New("a node with dots", named(node(), "ip-10-0-0-1.ec2.internal"), ""),
    New("a node with capitals", named(node(), "Node"), "Invalid metadata.name"),
    New("a namespace with dots", named(namespace(), "a.b"), "Invalid metadata.name"),
    New("a namespace of 64 characters", named(namespace(), "b" * 64), "Invalid metadata.labels metadata.name"),
    New("a namespace that starts with a digit", named(namespace(), "1b"), ""),
    New("a Deployment with dots", named(workload("Deployment"), "a.b"), ""),
    New("a Deployment with capitals", named(workload("Deployment"), "Web"), "Invalid metadata.name"),
    New("a StatefulSet with dots", named(workload("StatefulSet"), "a.b"), "Invalid metadata.name"),
    New("a priority class with capitals", named(priority_class(), "High"), "Invalid metadata.name"),
    New("a priority class reserved for the system", named(priority_class(), "system-mine"), "Invalid metadata.name"),
    New("a volume with capitals", named(volume(), "Disk"), "Invalid metadata.name"),
    New("a storage class with an underscore", named(storage_class(), "gp_3"), "Invalid metadata.name"),
    New("an attachment with capitals", named(attachment(), "Disk"), "Invalid metadata.name"),
    New("a CSINode with capitals", named(csi_node(), "Node"), "Invalid metadata.name"),
    New("a generated name", config_map({"generateName": "web-"}), ""),
    New(
        "a generated name with capitals",
        config_map({"generateName": "Web-"}),
        "Invalid metadata.generateName metadata.name",
    ),
    New("a generated name with dots at the end", config_map({"generateName": "web."}), "Invalid metadata.generateName"),
    New("a long prefix is cut", config_map({"generateName": "c" * 300}), "Invalid metadata.generateName"),
    New(
        "a generated name with an underscore",
        config_map({"generateName": "we_b-"}),
        "Invalid metadata.generateName metadata.name",
    ),
    New(
        "a name and a bad prefix",
        named(config_map(), "with-prefix", generateName="We_b"),
        "Invalid metadata.generateName",
    ),
    New("neither name nor prefix", config_map({"generateName": ""}), "Invalid metadata.name"),
)
LABELS = (
    New("a label", config_map({"labels": {"example.com/team": "a_B.c-9"}}), ""),
    New("an empty value", config_map({"labels": {"team": ""}}), ""),
    New("a value of 63 characters", config_map({"labels": {"team": LONG}}), ""),
    New("a value of 64 characters", config_map({"labels": {"team": LONG + "a"}}), "Invalid metadata.labels"),
    New("a space in a value", config_map({"labels": {"team": "a b"}}), "Invalid metadata.labels"),
    New("a slash in a value", config_map({"labels": {"team": "a/b"}}), "Invalid metadata.labels"),
    New("a value ends with a dash", config_map({"labels": {"team": "a-"}}), "Invalid metadata.labels"),
    New("a value with a line break", config_map({"labels": {"team": "a\n"}}), "Invalid metadata.labels"),
    New("a number as value", config_map({"labels": {"team": 7}}), "Invalid"),
    New("null as value", config_map({"labels": {"team": None}}), ""),
    New("an empty key", config_map({"labels": {"": "a"}}), "Invalid metadata.labels"),
    New("a key of 64 characters", config_map({"labels": {LONG + "a": "a"}}), "Invalid metadata.labels"),
    New("a key with two slashes", config_map({"labels": {"a/b/c": "a"}}), "Invalid metadata.labels"),
    New("a key with an empty prefix", config_map({"labels": {"/b": "a"}}), "Invalid metadata.labels"),
    New("a key with an empty name", config_map({"labels": {"b/": "a"}}), "Invalid metadata.labels"),
    New("capitals in a prefix", config_map({"labels": {"Example.com/a": "a"}}), "Invalid metadata.labels"),
    New("a prefix of 254 characters", config_map({"labels": {"b" * 254 + "/a": "a"}}), "Invalid metadata.labels"),
    New("two bad labels", config_map({"labels": {"a b": "a", "c": "d e"}}), "Invalid metadata.labels"),
    New("labels of a pod", pod({"labels": {"team": "a b"}}), "Invalid metadata.labels"),
    New("labels of a node", node({"labels": {"team": "a b"}}), "Invalid metadata.labels"),
    New("labels that are a list", config_map({"labels": ["a"]}), "Invalid"),
)
ANNOTATIONS = (
    New("any text", config_map({"annotations": {"example.com/note": 'a b / {"c": 1}\n'}}), ""),
    New("a bad annotation key", config_map({"annotations": {"a b": "c"}}), "Invalid metadata.annotations"),
    New("capitals in the prefix of an annotation", config_map({"annotations": {"Example.com/A": "c"}}), ""),
    New(
        "an annotation key of 64 characters",
        config_map({"annotations": {LONG + "a": "c"}}),
        "Invalid metadata.annotations",
    ),
    New("an annotation that is a number", config_map({"annotations": {"a": 7}}), "Invalid"),
    New("256 KiB of annotations", config_map({"annotations": {"a": "b" * (256 * 1024 - 1)}}), ""),
    New(
        "more than 256 KiB of annotations",
        config_map({"annotations": {"a": "b" * (256 * 1024)}}),
        "Invalid metadata.annotations",
    ),
    New(
        "more than 256 KiB on a node", node({"annotations": {"a": "b" * (256 * 1024)}}), "Invalid metadata.annotations"
    ),
    New("an object of 1 MiB", config_map(text="b" * (1024 * 1024 - 4)), ""),
    New("a ConfigMap above 1 MiB", config_map(text="b" * (1024 * 1024 + 1)), "Invalid []"),
    New("a ConfigMap key with a slash", config_map(**{"a/b": "c"}), "Invalid data[a/b]"),
    New("an object above the limit of a request", config_map(text="b" * (3200 * 1024)), "Invalid"),
)
FINALIZERS = (
    New("a finalizer", config_map({"finalizers": ["example.com/hold"]}), ""),
    New("a finalizer without a domain", config_map({"finalizers": ["hold"]}), "Invalid metadata.finalizers[0]"),
    New("one that Kubernetes knows", config_map({"finalizers": ["foregroundDeletion"]}), ""),
    New("a finalizer with a space", config_map({"finalizers": ["example.com/a b"]}), "Invalid metadata.finalizers"),
    New("an empty finalizer", config_map({"finalizers": [""]}), "Invalid metadata.finalizers metadata.finalizers[0]"),
    New("the same finalizer twice", config_map({"finalizers": ["example.com/a", "example.com/a"]}), ""),
    New(
        "two that contradict",
        config_map({"finalizers": ["orphan", "foregroundDeletion"]}),
        "Invalid metadata.finalizers",
    ),
    New("a finalizer of a node without a domain", node({"finalizers": ["hold"]}), "Invalid metadata.finalizers[0]"),
)
OWNERS = (
    New("an owner", owned(owner()), ""),
    New("an owner without apiVersion", owned(owner(apiVersion=None)), "Invalid metadata.ownerReferences.apiVersion"),
    New("an owner without kind", owned(owner(kind=None)), "Invalid metadata.ownerReferences.kind"),
    New("an owner without name", owned(owner(name=None)), "Invalid metadata.ownerReferences.name"),
    New("an owner without uid", owned(owner(uid=None)), "Invalid metadata.ownerReferences.uid"),
    New(
        "an owner with nothing",
        owned({}),
        "Invalid " + " ".join(f"metadata.ownerReferences.{each}" for each in ("apiVersion", "kind", "name", "uid")),
    ),
    New(
        "an owner with an odd apiVersion",
        owned(owner(apiVersion="a/b/c")),
        "Invalid metadata.ownerReferences.apiVersion",
    ),
    New("an Event as owner", owned(owner(kind="Event")), "Invalid metadata.ownerReferences"),
    New("a controller", owned(owner(controller=True)), ""),
    New(
        "two controllers",
        owned(owner(controller=True), owner(name="b", uid=UID[:-1] + "1", controller=True)),
        "Invalid metadata.ownerReferences",
    ),
    New("one controller of two", owned(owner(controller=True), owner(name="b", uid=UID[:-1] + "1")), ""),
    New("the same owner twice", owned(owner(), owner()), ""),
)
IDENTITY = (
    New("a uid of its own", config_map({"uid": UID}), ""),
    New("a creation timestamp", config_map({"creationTimestamp": "2020-01-01T00:00:00Z"}), ""),
    New("a deletion timestamp", config_map({"deletionTimestamp": "2020-01-01T00:00:00Z"}), ""),
    New("a deletion grace", config_map({"deletionGracePeriodSeconds": 5}), ""),
    New("a negative deletion grace", config_map({"deletionGracePeriodSeconds": -5}), ""),
    New("a namespace on a node", node({"name": "with-namespace", "namespace": "default"}), ""),
    New("a timestamp that is none", config_map({"creationTimestamp": "yesterday"}), "Invalid"),
    New("an unknown field", {**config_map(), "colour": "red"}, ""),
    New("data that is a number", config_map(a=7), "Invalid"),
)
CASES = (
    case_of("names_are_checked_as_their_kind_demands", NAMES),
    case_of("labels_are_checked", LABELS),
    case_of("annotations_and_sizes_are_checked", ANNOTATIONS),
    case_of("finalizers_are_checked", FINALIZERS),
    case_of("owners_are_checked", OWNERS),
    case_of("what_the_server_owns_is_not_taken_from_a_new_object", IDENTITY),
)
