"""Validation rules over the fields of an EC2NodeClass, each as CEL and as a Python predicate (see `cel_rules`).

They follow Karpenter: which fields a selector term may combine, that an alias is the only AMI term, and that exactly
one of role and instanceProfile is set.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dovetail.manifest.cel_rules import Rule
from dovetail.model.ec2nodeclass import FAMILY_BY_ALIAS, LATEST

Plain = Mapping[str, Any]
KIND = ("EC2NodeClass",)
RESERVED_TAGS = ("karpenter.sh/nodepool", "karpenter.sh/nodeclaim", "karpenter.k8s.aws/ec2nodeclass")
_CLUSTER_TAG, _CLUSTER_NAME_TAG = "kubernetes.io/cluster/", "eks:eks-cluster-name"


def _rule(cel: str, message: str, holds: Callable[[Any], bool], remedy: str, **more: Any) -> Rule:
    return Rule(cel=cel, message=message, holds=holds, remedy=remedy, kinds=KIND, **more)


def _listed(names: Iterable[str]) -> str:
    return "[" + ", ".join(f"'{name}'" for name in names) + "]"


def _needs_one_of(names: tuple[str, ...], where: str) -> Rule:
    """A term must select by at least one of the fields."""
    return _rule(
        " || ".join(f"has(self.{name})" for name in names),
        f"a term of {where} must have at least one of {_listed(names)}",
        lambda term: any(name in term for name in names),
        "add a field, or remove the term",
    )


def _not_combined(name: str, others: tuple[str, ...], where: str) -> Rule:
    """A field that cannot be combined with others in a term."""
    return _rule(
        f"!has(self.{name}) || !({' || '.join(f'has(self.{other})' for other in others)})",
        f"'{name}' cannot be combined with other fields in a term of {where}",
        lambda term: name not in term or not any(other in term for other in others),
        f"keep only '{name}', and move the other fields to a separate term",
    )


_SUBNETS, _GROUPS, _IMAGES = "subnetSelectorTerms", "securityGroupSelectorTerms", "amiSelectorTerms"
_RESERVATIONS = "capacityReservationSelectorTerms"
SUBNET_TERM = (_needs_one_of(("tags", "id"), _SUBNETS), _not_combined("id", ("tags",), _SUBNETS))
SECURITY_GROUP_TERM = (
    _needs_one_of(("tags", "id", "name"), _GROUPS),
    _not_combined("id", ("tags", "name"), _GROUPS),
    _not_combined("name", ("tags", "id"), _GROUPS),
)
_IMAGE_FIELDS = ("alias", "tags", "id", "name", "ssmParameter")
AMI_TERM = (
    _needs_one_of(_IMAGE_FIELDS, _IMAGES),
    *(
        _not_combined(name, tuple(other for other in (*_IMAGE_FIELDS, "owner") if other != name), _IMAGES)
        for name in ("alias", "id", "ssmParameter")
    ),
)
RESERVATION_TERM = (
    _needs_one_of(("tags", "id", "ownerID", "instanceMatchCriteria"), _RESERVATIONS),
    _not_combined("id", ("tags", "ownerID", "instanceMatchCriteria"), _RESERVATIONS),
)
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


def _alias_parts(alias: str) -> tuple[str, str]:
    family, _, version = alias.partition("@")
    return family.lower(), version


ALIAS = (
    _rule(
        f"self.split('@')[0].lowerAscii() in {_listed(FAMILY_BY_ALIAS)}",
        f"the family of an alias is one of {', '.join(FAMILY_BY_ALIAS)}",
        lambda alias: _alias_parts(alias)[0] in FAMILY_BY_ALIAS,
        "write an alias such as al2023@latest, or select images by id, name or tags",
    ),
    _rule(
        f"!self.lowerAscii().startsWith('windows') || self.endsWith('@{LATEST}')",
        "the version of a Windows image cannot be pinned",
        lambda alias: not _alias_parts(alias)[0].startswith("windows") or _alias_parts(alias)[1] == LATEST,
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
        "!has(self.volumeInitializationRate) || has(self.snapshotID)",
        "volumeInitializationRate needs a snapshotID",
        lambda ebs: "volumeInitializationRate" not in ebs or "snapshotID" in ebs,
        "leave it out, or add the snapshotID",
    ),
)
NOT_EMPTY = _rule("self != ''", "may not be empty", lambda text: text != "", "leave the field out, or fill it")


def _alias_family(spec: Plain) -> str:
    aliases = [term["alias"] for term in spec.get(_IMAGES, ()) if "alias" in term]
    return FAMILY_BY_ALIAS.get(_alias_parts(aliases[0])[0], "") if aliases else ""


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
        " || self.amiFamily == 'Custom' || x.alias.split('@')[0].lowerAscii() == self.amiFamily.lowerAscii())",
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
    ),
)
