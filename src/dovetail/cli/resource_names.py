"""Names of objects as in kubectl: `node NAME`, `nodes NAME`, `no/NAME`, `pod/NAME -n NAMESPACE`.

A kind has a singular, a plural, a short name and, for custom resources, the forms with the group.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, NamedTuple

import typer


class ResourceKind(StrEnum):
    """The kinds that commands take names of."""

    NODE = "node"
    NODEPOOL = "nodepool"
    NODECLAIM = "nodeclaim"
    POD = "pod"


_SHORT = {ResourceKind.NODE: "no", ResourceKind.NODEPOOL: "np", ResourceKind.NODECLAIM: "nc", ResourceKind.POD: "po"}
_GROUP = "karpenter.sh"


def _spellings(kind: ResourceKind) -> Iterable[str]:
    grouped = kind in {ResourceKind.NODEPOOL, ResourceKind.NODECLAIM}
    for name in (kind.value, f"{kind.value}s"):
        yield from (name, f"{name}.{_GROUP}") if grouped else (name,)
    yield _SHORT[kind]


KIND_BY_SPELLING = {spelling: kind for kind in ResourceKind for spelling in _spellings(kind)}
"""All spellings, in lower case."""

NamespaceOption = Annotated[
    str,
    typer.Option(
        "--namespace", "-n", metavar="NAMESPACE", help="The namespace of the pod.", show_default="that of the context"
    ),
]
AllNamespacesOption = Annotated[
    bool, typer.Option("--all-namespaces", "-A", help="Look for the pod in all namespaces.")
]


class NamedResource(NamedTuple):
    """A kind and the name of one object; the name of a pod may have its namespace before a slash."""

    kind: ResourceKind
    name: str


def parse_resource(written: str, name: str) -> NamedResource:
    """Parse `KIND NAME` or `KIND/NAME`; raises `BadParameter` for an unknown kind or a missing name."""
    word, slash, inside = written.partition("/")
    kind = KIND_BY_SPELLING.get(word.lower())
    if kind is None:
        known = ", ".join(f"{each} ({_SHORT[each]})" for each in ResourceKind)
        raise typer.BadParameter(f"{word!r} is not a kind that can be explained; write one of {known}")
    if slash and name:
        raise typer.BadParameter(f"{written!r} names an object already; remove {name!r}")
    if not (inside or name):
        raise typer.BadParameter(f"the name of the {kind} is missing; write {kind} NAME or {kind}/NAME")
    return NamedResource(kind, inside or name)


def strip_kind(written: str, *kinds: ResourceKind) -> str:
    """Return the name in `NAME` or `KIND/NAME`; raises `BadParameter` for a kind that is not expected."""
    word, slash, name = written.partition("/")
    if not slash:
        return written
    if KIND_BY_SPELLING.get(word.lower()) not in kinds or not name:
        raise typer.BadParameter(f"{written!r} is not a {' or '.join(kinds)}; write NAME or {kinds[0]}/NAME")
    return name
