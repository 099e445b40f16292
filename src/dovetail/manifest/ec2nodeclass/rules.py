"""Validation rules over the fields of an EC2NodeClass, each as CEL and as a Python predicate (see `cel_rules`).

They follow Karpenter: which fields a selector term may combine, that an alias is the only AMI term, and that exactly
one of role and instanceProfile is set. Some of Karpenter's rules about terms hold back only a list in which *every*
term is wrong; the CRD has them like that, and the strict rules look at each term.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dovetail.manifest.cel_rules import Rule
from dovetail.manifest.patterns import matches
from dovetail.model.duration import parse_duration
from dovetail.model.ec2nodeclass import FAMILY_BY_ALIAS, LATEST

Plain = Mapping[str, Any]
KIND = ("EC2NodeClass",)
RESERVED_TAGS = ("karpenter.sh/nodepool", "karpenter.sh/nodeclaim", "karpenter.k8s.aws/ec2nodeclass")
RESERVABLE = ("cpu", "memory", "ephemeral-storage", "pid")
SIGNALS = (
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "pid.available",
)
_CLUSTER_TAG, _CLUSTER_NAME_TAG = "kubernetes.io/cluster", "eks:eks-cluster-name"


def _rule(cel: str, message: str, holds: Callable[[Any], bool], remedy: str, **more: Any) -> Rule:
    return Rule(cel=cel, message=message, holds=holds, remedy=remedy, kinds=KIND, **more)


def _is_go_duration(text: str) -> bool:
    try:
        parse_duration(text)
    except ValueError:
        return False
    return True


def _listed(names: Iterable[str]) -> str:
    return "[" + ", ".join(f"'{name}'" for name in names) + "]"


def _needs_one_of(names: tuple[str, ...], where: str) -> Rule:
    """A term must select by at least one of the fields."""
    return _rule(
        " || ".join(f"has(self.{name})" for name in names),
        f"{where} must have at least one of {_listed(names)}",
        lambda term: any(name in term for name in names),
        "add a field, or remove it",
    )


def _not_combined(name: str, others: tuple[str, ...], where: str, *, strict: bool = False) -> Rule:
    """A field that cannot be combined with others in a term."""
    return _rule(
        f"!has(self.{name}) || !({_any('self', others)})",
        f"'{name}' cannot be combined with other fields in a term of {where}",
        lambda term: name not in term or not any(other in term for other in others),
        f"keep only '{name}', and move the other fields to a separate term",
        strict=strict,
    )


def _not_combined_everywhere(name: str, others: tuple[str, ...], where: str) -> Rule:
    """A field that cannot be combined with others in all terms of a list."""
    return _rule(
        f"!self.all(x, has(x.{name}) && ({_any('x', others)}))",
        f"'{name}' cannot be combined with other fields in every term of {where}",
        lambda terms: not all(name in term and any(other in term for other in others) for term in terms),
        f"keep only '{name}', and move the other fields to a separate term",
    )


def _any(term: str, names: tuple[str, ...]) -> str:
    return " || ".join(f"has({term}.{name})" for name in names)


_SUBNETS, _GROUPS, _IMAGES = "subnetSelectorTerms", "securityGroupSelectorTerms", "amiSelectorTerms"
_RESERVATIONS = "capacityReservationSelectorTerms"
SUBNET_TERM = (
    _needs_one_of(("tags", "id"), f"a term of {_SUBNETS}"),
    _not_combined("id", ("tags",), _SUBNETS, strict=True),
)
SUBNET_TERMS = (_not_combined_everywhere("id", ("tags",), _SUBNETS),)
SECURITY_GROUP_TERM = (
    _needs_one_of(("tags", "id", "name"), f"a term of {_GROUPS}"),
    _not_combined("id", ("tags", "name"), _GROUPS, strict=True),
    _not_combined("name", ("tags", "id"), _GROUPS, strict=True),
)
SECURITY_GROUP_TERMS = (
    _not_combined_everywhere("id", ("tags", "name"), _GROUPS),
    _not_combined_everywhere("name", ("tags", "id"), _GROUPS),
)
AMI_TERM = (
    _needs_one_of(("alias", "tags", "id", "name", "ssmParameter"), f"a term of {_IMAGES}"),
    _not_combined("alias", ("id", "tags", "name", "owner"), _IMAGES),
    _not_combined("id", ("alias", "tags", "name", "owner"), _IMAGES),
    _not_combined("ssmParameter", ("alias", "id", "tags", "name", "owner"), _IMAGES, strict=True),
)
_OTHER_RESERVATION_FIELDS = ("tags", "ownerID", "instanceMatchCriteria")
RESERVATION_TERM = (
    _needs_one_of(("tags", "id", "instanceMatchCriteria"), f"a term of {_RESERVATIONS}"),
    _not_combined("id", _OTHER_RESERVATION_FIELDS, _RESERVATIONS, strict=True),
)
RESERVATION_TERMS = (_not_combined_everywhere("id", _OTHER_RESERVATION_FIELDS, _RESERVATIONS),)
PLACEMENT_GROUP = (
    _rule(
        "has(self.name) != has(self.id)",
        "a placement group needs exactly one of ['name', 'id']",
        lambda selector: ("name" in selector) != ("id" in selector),
        "keep one of them",
    ),
)
NO_EMPTY_TAGS = _rule(
    "self.all(x, x != '' && self[x] != '')",
    "tags have neither empty keys nor empty values",
    lambda tags: all(key != "" and value != "" for key, value in tags.items()),
    "write '*' for any value",
)


def _is_reserved(key: str) -> bool:
    return key in (*RESERVED_TAGS, _CLUSTER_NAME_TAG) or key.startswith(_CLUSTER_TAG)


INSTANCE_TAGS = (
    _rule(
        "self.all(x, x != '')",
        "tags have no empty keys",
        lambda tags: "" not in tags,
        "name the tag",
    ),
    _rule(
        f"self.all(x, !(x in {_listed((*RESERVED_TAGS, _CLUSTER_NAME_TAG))}) && !x.startsWith('{_CLUSTER_TAG}'))",
        f"the tags {', '.join(RESERVED_TAGS)}, {_CLUSTER_NAME_TAG} and {_CLUSTER_TAG}* are reserved for the controller",
        lambda tags: not any(map(_is_reserved, tags)),
        "leave it out: the controller adds it to every instance",
    ),
)


ALIAS = (
    _rule(
        "self.matches('^[a-zA-Z0-9]+@.+$')",
        "an alias has the form family@version",
        lambda alias: matches("^[a-zA-Z0-9]+@.+$", alias),
        "write an alias such as al2023@latest",
    ),
    _rule(
        f"self.split('@')[0] in {_listed(FAMILY_BY_ALIAS)}",
        f"the family of an alias is one of {', '.join(FAMILY_BY_ALIAS)}",
        lambda alias: alias.partition("@")[0] in FAMILY_BY_ALIAS,
        "write an alias such as al2023@latest, or select images by id, name or tags",
    ),
    _rule(
        f"!self.startsWith('windows') || self.split('@')[1] == '{LATEST}'",
        "the version of a Windows image cannot be pinned",
        lambda alias: not alias.startswith("windows") or alias.split("@")[1:2] == [LATEST],
        f"write @{LATEST}",
    ),
)
ALIAS_IS_THE_ONLY_TERM = _rule(
    "!self.exists(x, has(x.alias)) || self.size() == 1",
    "a term with 'alias' is the only one of amiSelectorTerms",
    lambda terms: not any("alias" in term for term in terms) or len(terms) == 1,
    "keep the alias alone, or select every image another way",
)
ONE_ROOT_VOLUME = _rule(
    "self.filter(x, has(x.rootVolume) && x.rootVolume).size() <= 1",
    "at most one of blockDeviceMappings is the rootVolume",
    lambda mappings: sum(bool(mapping.get("rootVolume")) for mapping in mappings) <= 1,
    "keep rootVolume on the device the kubelet uses",
)
VOLUME = (
    _rule(
        "has(self.snapshotID) || has(self.volumeSize)",
        "a volume has a volumeSize or a snapshotID",
        lambda ebs: "snapshotID" in ebs or "volumeSize" in ebs,
        "add its size, such as volumeSize: 20Gi",
    ),
    _rule(
        "!has(self.volumeInitializationRate) || (has(self.snapshotID) && self.snapshotID != '')",
        "volumeInitializationRate needs a snapshotID",
        lambda ebs: "volumeInitializationRate" not in ebs or ebs.get("snapshotID", "") != "",
        "leave it out, or add the snapshotID",
    ),
)
NOT_EMPTY = _rule("self != ''", "may not be empty", lambda text: text != "", "leave the field out, or fill it")


def keys_among(names: Iterable[str]) -> Rule:
    """The keys of a map are among these."""
    listed = tuple(names)
    return _rule(
        f"self.all(x, x in {_listed(listed)})",
        f"names are {', '.join(listed)}",
        lambda values: all(name in listed for name in values),
        "remove the other names",
    )


NOT_NEGATIVE = _rule(
    "self.all(x, !self[x].startsWith('-'))",
    "amounts are not negative",
    lambda amounts: not any(amount.startswith("-") for amount in amounts.values()),
    "write an amount such as 500Mi",
)
DURATIONS = _rule(
    "self.all(x, duration(self[x]) == duration(self[x]))",
    "values are durations such as 1m30s",
    lambda spans: all(map(_is_go_duration, spans.values())),
    "write a duration such as 90s",
)


def _both(one: str, other: str) -> Rule:
    return _rule(
        f"!has(self.{one}) || self.{one}.all(x, has(self.{other}) && x in self.{other})",
        f"every signal of {one} needs an entry in {other}",
        lambda kubelet: all(name in kubelet.get(other, {}) for name in kubelet.get(one, {})),
        "every signal needs an entry in both",
    )


_HIGH, _LOW = "imageGCHighThresholdPercent", "imageGCLowThresholdPercent"
KUBELET = (
    _both("evictionSoft", "evictionSoftGracePeriod"),
    _both("evictionSoftGracePeriod", "evictionSoft"),
    _rule(
        f"!has(self.{_HIGH}) || !has(self.{_LOW}) || self.{_HIGH} > self.{_LOW}",
        f"{_HIGH} must be greater than {_LOW}",
        lambda kubelet: _HIGH not in kubelet or _LOW not in kubelet or kubelet[_HIGH] > kubelet[_LOW],
        f"raise it, or lower {_LOW}",
        at=_HIGH,
    ),
)


def _alias_family(spec: Plain) -> str:
    aliases = [term["alias"] for term in spec.get(_IMAGES, ()) if "alias" in term]
    return FAMILY_BY_ALIAS.get(aliases[0].partition("@")[0], "") if aliases else ""


def _family_agrees(spec: Plain) -> bool:
    family = _alias_family(spec)
    return not family or spec.get("amiFamily", family) in (family, "Custom")


_HAS_ALIAS = f"(has(self.{_IMAGES}) && self.{_IMAGES}.exists(x, has(x.alias)))"
SPEC = (
    _rule(
        "has(self.role) != has(self.instanceProfile)",
        "exactly one of ['role', 'instanceProfile'] must be set",
        lambda spec: ("role" in spec) != ("instanceProfile" in spec),
        "keep 'role' to have an instance profile created for it, or 'instanceProfile' to use an existing one",
    ),
    _rule(
        f"has(self.amiFamily) || {_HAS_ALIAS}",
        "amiFamily must be set unless amiSelectorTerms has an alias",
        lambda spec: "amiFamily" in spec or any("alias" in term for term in spec.get(_IMAGES, ())),
        "set the family of the images, such as amiFamily: AL2023, or select them by alias",
    ),
    _rule(
        f"!has(self.amiFamily) || !has(self.{_IMAGES}) || self.{_IMAGES}.all(x, !has(x.alias)"
        " || self.amiFamily == 'Custom' || x.alias.split('@')[0] == self.amiFamily.lowerAscii())",
        "amiFamily must be the family of the alias, or Custom",
        _family_agrees,
        "leave out amiFamily: the alias implies it",
        at="amiFamily",
    ),
    _rule(
        f"!has(self.amiFamily) || self.amiFamily != 'Custom' || has(self.{_IMAGES})",
        "amiFamily Custom needs amiSelectorTerms",
        lambda spec: spec.get("amiFamily") != "Custom" or _IMAGES in spec,
        "select the images by id, name, tags or ssmParameter",
        versions=("v1beta1",),
    ),
)
_PRIMARY = {"deviceIndex": 0, "networkCardIndex": 0, "interfaceType": "interface"}


def _has_primary(interfaces: list[Plain]) -> bool:
    return not interfaces or any(each.items() >= _PRIMARY.items() for each in interfaces)


def _are_distinct(interfaces: list[Plain]) -> bool:
    places = [(each["networkCardIndex"], each["deviceIndex"]) for each in interfaces]
    fabric = [each["networkCardIndex"] for each in interfaces if each["interfaceType"] == "efa-only"]
    return len(places) == len(set(places)) and len(fabric) == len(set(fabric))


NETWORK_INTERFACES = (
    _rule(
        "self.size() == 0 || self.exists(x,"
        " x.deviceIndex == 0 && x.networkCardIndex == 0 && x.interfaceType == 'interface')",
        "networkInterfaces need a primary one: deviceIndex 0, networkCardIndex 0, interfaceType interface",
        _has_primary,
        "add it, or leave out networkInterfaces",
    ),
    _rule(
        "self.all(x, self.filter(y, y.networkCardIndex == x.networkCardIndex && (y.deviceIndex == x.deviceIndex"
        " || (x.interfaceType == 'efa-only' && y.interfaceType == 'efa-only'))).size() == 1)",
        "networkInterfaces have different card and device indexes, and at most one is efa-only on each card",
        _are_distinct,
        "remove one of them",
    ),
)
CONNECTION_TRACKING = (
    _needs_one_of(("tcpEstablishedTimeout", "udpStreamTimeout", "udpTimeout"), "connectionTracking"),
)
