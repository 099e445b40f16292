"""Our v1 CRDs against Karpenter's, fact by fact: as wide, with the same defaults, and with additional fields only.

`EXCEPTIONS` lists every difference in a field that both have, with its reason; `ADDITIONS` every field that only ours
have. An entry that is no longer true fails. The rules are compared by behavior on a real API server in `tests/e2e`;
here each rule of Karpenter has a rule of ours, which `RULES` names where the message differs.
"""

import json

import pytest

from dovetail.manifest.schema import Scope, schema_of
from dovetail.manifest.schema_check import examine, with_defaults
from manifest.corpus import claim, disrupted, node_class, pool
from manifest.ec2nodeclass_corpus import ec2_class
from manifest.karpenter_crds import FACTS, facts_of

KARPENTER = json.loads(FACTS.read_text(encoding="utf-8"))
VERSIONS = {"KWOKNodeClass": "v1alpha1"}
OURS = {kind: facts_of(schema_of(Scope(kind, VERSIONS.get(kind, "v1")))) for kind in KARPENTER}
RULES_KEY = "x-kubernetes-validations"
SAME = {"x-kubernetes-list-type": "atomic"}  # what absence means

GO_TIME = "Karpenter's Go types read RFC 3339 alone; one other spelling stops its list"
GO_QUANTITY = "Karpenter's Go types read no fraction and no endless number as exponent; one of them stops its list"
GO_INTEGER = "the API server does not enforce int32, and Karpenter's Go types read no greater one; it stops its list"
GO_DURATION = "Karpenter's Go types read up to 292 years; a longer duration stops its list"
SPELLING = "the same text is accepted, by another spelling of the pattern"
ON_ARRAY = "Karpenter has it on the array, where it does nothing"
ADDED_RULE = "about an additional field"
PASSED_ON = "settings that Karpenter drops are passed on"

EXCEPTIONS = {
    ("NodePool", "spec.disruption", "required"): "accepted without consolidateAfter, as in Karpenter's main branch",
    ("NodePool", "spec.disruption.consolidateAfter", "default"): "0s, as in Karpenter's main branch",
    ("NodePool", "spec.disruption.budgets[].reasons[]", "enum"): "additional reason Expired",
    ("NodePool", "spec.disruption.budgets[].schedule", "pattern"): SPELLING,
    ("EC2NodeClass", "", "required"): "an EC2NodeClass without spec is refused at once instead of never being ready",
    ("EC2NodeClass", "spec.subnetSelectorTerms", "minItems"): "in place of a rule about the size",
    ("EC2NodeClass", "spec.securityGroupSelectorTerms", "minItems"): "in place of a rule about the size",
    ("EC2NodeClass", "spec.cpuOptions", "x-kubernetes-preserve-unknown-fields"): PASSED_ON,
    ("EC2NodeClass", "spec.kubelet", "x-kubernetes-preserve-unknown-fields"): PASSED_ON,
    ("EC2NodeClass", "spec.kubelet.evictionSoftGracePeriod", "maxProperties"): "there are no more signals",
    ("EC2NodeClass", "spec.blockDeviceMappings[].ebs.volumeSize", "pattern"): "18Ti, 19Ti, 28Ti, ... are sizes, too",
    ("EC2NodeClass", "spec.kubelet.evictionHard{}", "pattern"): GO_QUANTITY,
    ("EC2NodeClass", "spec.kubelet.evictionSoft{}", "pattern"): GO_QUANTITY,
    ("EC2NodeClass", "spec.kubelet.kubeReserved{}", "pattern"): GO_QUANTITY,
    ("EC2NodeClass", "spec.kubelet.systemReserved{}", "pattern"): GO_QUANTITY,
    ("EC2NodeClass", "status.capacityReservations[].endTime", "pattern"): GO_TIME,
    **{
        ("EC2NodeClass", f"spec.{path}", "maximum"): GO_INTEGER
        for path in (
            *("networkInterfaces[].deviceIndex", "networkInterfaces[].networkCardIndex", "ipPrefixCount"),
            *("kubelet.maxPods", "kubelet.podsPerCore", "kubelet.evictionMaxPodGracePeriod"),
        )
    },
    ("EC2NodeClass", "spec.kubelet.evictionMaxPodGracePeriod", "minimum"): GO_INTEGER,
    ("NodePool", "spec.replicas", "maximum"): "the API server has this limit for every scale subresource",
    ("NodePool", "status.nodes", "minimum"): "the API server has this limit for every scale subresource",
    ("NodePool", "spec.limits{}", "pattern"): GO_QUANTITY,
    ("NodePool", "status.resources{}", "pattern"): GO_QUANTITY,
    ("NodeClaim", "spec.resources.requests{}", "pattern"): GO_QUANTITY,
    ("NodeClaim", "status.allocatable{}", "pattern"): GO_QUANTITY,
    ("NodeClaim", "status.capacity{}", "pattern"): GO_QUANTITY,
    ("NodeClaim", "status.lastPodEventTime", "pattern"): GO_TIME,
    ("NodeClaim", "status.conditions[].reason", "pattern"): SPELLING,
    **{(kind, "status.conditions[].type", "pattern"): SPELLING for kind in KARPENTER},
    **{(kind, "status.conditions[].lastTransitionTime", "pattern"): GO_TIME for kind in KARPENTER},
    **{
        (kind, f"{spec}.{path}", fact): reason
        for kind, spec in (("NodePool", "spec.template.spec"), ("NodeClaim", "spec"))
        for path, fact, reason in (
            ("requirements[].key", "pattern", SPELLING),
            ("requirements[].minValues", "format", "of an integer from 1 to 50"),
            ("requirements[].values", "pattern", ON_ARRAY),
            ("requirements[].values", "maxLength", ON_ARRAY),
            *(
                (f"{taints}[].{field}", "pattern", SPELLING)
                for taints in ("taints", "startupTaints")
                for field in ("key", "value")
            ),
            *((f"{taints}[].timeAdded", "pattern", GO_TIME) for taints in ("taints", "startupTaints")),
        )
    },
}
ADDITIONS = {
    "NodePool": (
        "spec.repair",
        "spec.disruption.actionControls",
        "spec.disruption.genericPerActionControls",
        "spec.disruption.consolidationGracePeriod",
        "spec.disruption.minSavings",
        "spec.disruption.expireAfter",
        "spec.disruption.budgets[].action",
        "spec.template.spec.kubelet",
        "spec.template.spec.nodeClassRef.apiVersion",
    ),
    "NodeClaim": ("spec.kubelet", "spec.nodeClassRef.apiVersion"),
    "EC2NodeClass": ("status.amis[].requirements[].minValues",),
    "KWOKNodeClass": (),
}
_SIGNALS = "names are memory.available, nodefs.available, nodefs.inodesFree"
_NAMES = "names are cpu, memory, ephemeral-storage, pid"
_FAMILY = "amiFamily must be the family of the alias, or Custom"
_NOT_IN_TERM = "'{}' cannot be combined with other fields in a term of {}"
_NOT_IN_TERMS = "'{}' cannot be combined with other fields in every term of {}"
_ONE_OF = "a term of {} must have at least one of "
_RESERVED = "the tags karpenter.sh/nodepool, karpenter.sh/nodeclaim, karpenter.k8s.aws/ec2nodeclass"
_EXCLUSIVE = "'{}' is mutually exclusive, cannot be set with a combination of other fields in a {} selector term"
RULES = {
    "must specify exactly one of ['role', 'instanceProfile']": "exactly one of ['role', 'instanceProfile']",
    **{
        f"if set, amiFamily must be '{family}' or 'Custom' when using a{n} {family} alias": _FAMILY
        for family, n in (
            *(("AL2", "n"), ("AL2023", "n"), ("Bottlerocket", "")),
            *(("Windows2019", ""), ("Windows2022", ""), ("Windows2025", "")),
        )
    },
    "must specify amiFamily if amiSelectorTerms does not contain an alias": "amiFamily must be set unless",
    "expected at least one, got none, ['tags', 'id', 'name', 'alias', 'ssmParameter']": "a term of amiSelectorTerms",
    "'id' is mutually exclusive, cannot be set with a combination of other fields in amiSelectorTerms": (
        _NOT_IN_TERM.format("id", "amiSelectorTerms")
    ),
    "'alias' is mutually exclusive, cannot be set with a combination of other fields in amiSelectorTerms": (
        _NOT_IN_TERM.format("alias", "amiSelectorTerms")
    ),
    "'alias' is mutually exclusive, cannot be set with a combination of other amiSelectorTerms": (
        "a term with 'alias' is the only one of amiSelectorTerms"
    ),
    "'alias' is improperly formatted, must match the format 'family@version'": "an alias has the form family@version",
    "family is not supported, must be one of the following: 'al2', 'al2023', 'bottlerocket', 'windows2019', "
    "'windows2022', 'windows2025'": "the family of an alias is one of",
    "windows families may only specify version 'latest'": "the version of a Windows image cannot be pinned",
    "empty tag keys or values aren't supported": "tags have neither empty keys nor empty values",
    "must have only one blockDeviceMappings with rootVolume": "at most one of blockDeviceMappings is the rootVolume",
    "snapshotID or volumeSize must be defined": "a volume has a volumeSize or a snapshotID",
    "snapshotID must be set when volumeInitializationRate is set": "volumeInitializationRate needs a snapshotID",
    "expected at least one, got none, ['tags', 'id', 'instanceMatchCriteria']": (
        _ONE_OF.format("capacityReservationSelectorTerms")
    ),
    "'id' is mutually exclusive, cannot be set along with other fields in a capacity reservation selector term": (
        _NOT_IN_TERMS.format("id", "capacityReservationSelectorTerms")
    ),
    "at least one of tcpEstablishedTimeout, udpStreamTimeout, or udpTimeout must be set": (
        "connectionTracking must have at least one of"
    ),
    "instanceProfile cannot be empty": "may not be empty",
    "role cannot be empty": "may not be empty",
    "evictionSoft OwnerKey does not have a matching evictionSoftGracePeriod": "every signal of evictionSoft needs",
    "evictionSoftGracePeriod OwnerKey does not have a matching evictionSoft": (
        "every signal of evictionSoftGracePeriod needs"
    ),
    "networkInterfaces must include a primary interface with interfaceType='interface'": (
        "networkInterfaces need a primary one"
    ),
    "networkInterfaces must not have duplicate networkCardIndex and deviceIndex pairs, and can have at most one efa "
    "device per network card": "networkInterfaces have different card and device indexes",
    "expected at least one, got none, ['name', 'id']": "a placement group needs exactly one of",
    "'name' and 'id' are mutually exclusive": "a placement group needs exactly one of",
    "securityGroupSelectorTerms cannot be empty": "",  # minItems
    "subnetSelectorTerms cannot be empty": "",  # minItems
    "expected at least one, got none, ['tags', 'id', 'name']": _ONE_OF.format("securityGroupSelectorTerms"),
    "expected at least one, got none, ['tags', 'id']": _ONE_OF.format("subnetSelectorTerms"),
    _EXCLUSIVE.format("id", "security group"): _NOT_IN_TERMS.format("id", "securityGroupSelectorTerms"),
    _EXCLUSIVE.format("name", "security group"): _NOT_IN_TERMS.format("name", "securityGroupSelectorTerms"),
    _EXCLUSIVE.format("id", "subnet"): _NOT_IN_TERMS.format("id", "subnetSelectorTerms"),
    "empty tag keys aren't supported": "tags have no empty keys",
    **{
        f"tag contains a restricted tag matching {tag}": _RESERVED
        for tag in (
            *("eks:eks-cluster-name", "kubernetes.io/cluster/"),
            *("karpenter.sh/nodepool", "karpenter.sh/nodeclaim", "karpenter.k8s.aws/ec2nodeclass"),
        )
    },
}
_BY_START = {
    "valid keys for eviction": _SIGNALS,
    "valid keys for kubeReserved": _NAMES,
    "valid keys for systemReserved": _NAMES,
    "kubeReserved value cannot be": "amounts are not negative",
    "systemReserved value cannot be": "amounts are not negative",
}
ADDED_RULES = {
    "must be shorter than 292 years": GO_DURATION,
    "values are durations such as 1m30s": GO_DURATION,
    "group and apiVersion must name the same group": ADDED_RULE,
    "'actionControls' and 'genericPerActionControls' are aliases; keep one of them": ADDED_RULE,
    "'action' and 'reasons' cannot be combined; keep one of them": ADDED_RULE,
}
FIELDS = [(kind, path) for kind, facts in KARPENTER.items() for path in facts]


def differences(kind, path):
    theirs, ours = KARPENTER[kind][path], OURS[kind].get(path, {})
    names = (theirs.keys() | ours.keys()) - {RULES_KEY}
    return {name for name in names if theirs.get(name, SAME.get(name)) != ours.get(name, SAME.get(name))}


@pytest.mark.parametrize(("kind", "path"), FIELDS)
def test_every_field_is_constrained_as_in_karpenter(kind, path):
    assert path in OURS[kind]
    assert {name for name in differences(kind, path) if (kind, path, name) not in EXCEPTIONS} == set()


def test_every_exception_is_one():
    assert {each for each in EXCEPTIONS if each[2] not in differences(*each[:2])} == set()


def test_enumerations_and_required_fields_are_only_loosened():
    for kind, path in FIELDS:
        theirs, ours = KARPENTER[kind][path], OURS[kind][path]
        assert set(theirs.get("enum", ())) <= set(ours.get("enum", ()))
        if (kind, path) != ("EC2NodeClass", ""):
            assert set(ours.get("required", ())) <= set(theirs.get("required", ()))


@pytest.mark.parametrize("kind", KARPENTER)
def test_other_fields_are_listed_and_optional(kind):
    added = [path for path in OURS[kind] if path not in KARPENTER[kind]]
    assert all(path.startswith(ADDITIONS[kind]) for path in added)
    assert all(any(path.startswith(each) for path in added) for each in ADDITIONS[kind])
    for path in added:
        parent, _, name = path.rpartition(".")
        assert name not in OURS[kind][parent].get("required", ()) or parent.startswith(ADDITIONS[kind])


def ours_for(message):
    start = next((mine for begin, mine in _BY_START.items() if message.startswith(begin)), None)
    return RULES.get(message, start if start is not None else message)


def messages_at(kind, path):
    """Messages of the rules at a path, and of those at its items."""
    return [text for place in (path, f"{path}[]") for text in OURS[kind].get(place, {}).get(RULES_KEY, ())]


@pytest.mark.parametrize(
    ("kind", "path", "message"),
    [(kind, path, message) for kind, path in FIELDS for message in KARPENTER[kind][path].get(RULES_KEY, ())],
)
def test_every_rule_has_one_of_ours(kind, path, message):
    expected = ours_for(message)
    assert not expected or any(text.startswith(expected) for text in messages_at(kind, path))


@pytest.mark.parametrize(("kind", "path"), FIELDS)
def test_no_rule_of_ours_is_new(kind, path):
    holders = (path, path.removesuffix("[]"))
    expected = [ours_for(message) for place in holders for message in KARPENTER[kind][place].get(RULES_KEY, ())]
    for text in OURS[kind][path].get(RULES_KEY, ()):
        assert text in ADDED_RULES or any(each and text.startswith(each) for each in expected)


def stored(document):
    scope = Scope(document["kind"], document["apiVersion"].partition("/")[2])
    filled = with_defaults(schema_of(scope), document)
    assert examine(schema_of(scope), filled).faults == []
    return filled


def test_a_pool_gets_the_defaults_that_karpenter_relies_on():
    spec = stored(pool())["spec"]
    defaults = {
        "consolidateAfter": "0s",
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "budgets": [{"nodes": "10%"}],
    }
    assert spec["disruption"] == defaults
    assert spec["template"]["spec"]["expireAfter"] == "720h"
    assert stored(disrupted(consolidationPolicy="WhenEmpty"))["spec"]["disruption"] == {
        **defaults,
        "consolidationPolicy": "WhenEmpty",
    }


def test_other_kinds_get_their_defaults():
    assert stored(claim())["spec"]["expireAfter"] == "720h"
    assert stored(ec2_class())["spec"]["metadataOptions"] == {
        "httpEndpoint": "enabled",
        "httpProtocolIPv6": "disabled",
        "httpPutResponseHopLimit": 1,
        "httpTokens": "required",
    }
    assert stored(node_class())["status"] == KARPENTER["KWOKNodeClass"]["status"]["default"]
