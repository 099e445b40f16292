"""How a table of objects is held against a cluster.

A row says what becomes of one object or one change: `""` if it is accepted, else the error class and the paths of the
fields that are refused, such as `Invalid spec.containers spec.restartPolicy`. Every row was answered by a real API
server first; the embedded world has to give the same answer.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from contract.environment import Environment
from dovetail.model.kinds import Kind
from dovetail.model.kube_object import Key
from dovetail.ports.cluster import Patch
from dovetail.ports.errors import ApiError, Invalid

Plain = dict[str, Any]
Case = Callable[[Environment], Awaitable[None]]
CLUSTER_SCOPED = {
    "Node",
    "Namespace",
    "PersistentVolume",
    "PriorityClass",
    "StorageClass",
    "CSINode",
    "VolumeAttachment",
    "NodePool",
    "NodeClaim",
    "KWOKNodeClass",
}
NO_FIELD = "<nil>"
"""Where a real server says that it left rules unchecked; with a dot it repeats a fault for the scale subresource."""


class New(NamedTuple):
    """An object to be created. Without a name it gets one, and a namespace if its kind has them."""

    title: str
    document: Plain
    outcome: str = ""


class Changed(NamedTuple):
    """A merge patch on an object that was just created."""

    title: str
    before: Plain
    kind: Kind[Any]
    patch: Patch
    outcome: str = ""


def placed(env: Environment, document: Plain) -> Plain:
    """The document with a name and a namespace."""
    meta: Plain = dict(document.get("metadata") or {})
    if "name" not in meta and "generateName" not in meta:
        meta["name"] = env.name("row")
    if document["kind"] not in CLUSTER_SCOPED:
        meta.setdefault("namespace", env.namespace)
    about = {"involvedObject": {"namespace": env.namespace, **document.get("involvedObject", {})}}
    return {**document, "metadata": meta, **(about if document["kind"] == "Event" else {})}


async def outcome_of(answer: Awaitable[object]) -> str:
    """What became of a call, as a row says it."""
    try:
        await answer
    except ApiError as error:
        named = {fault.path for fault in error.faults} if isinstance(error, Invalid) else set()
        paths = sorted(path for path in named if path != NO_FIELD and not path.startswith("."))
        return " ".join([type(error).__name__, *paths])
    return ""


async def answer_to(env: Environment, row: New | Changed) -> str:
    """What the cluster makes of a row."""
    if isinstance(row, New):
        return await outcome_of(env.submit(placed(env, row.document)))
    before = placed(env, row.before)
    await env.apply(before)
    key = Key(before["metadata"].get("namespace", ""), before["metadata"]["name"])
    return await outcome_of(env.cluster.patch(row.kind, key, row.patch))


def case_of(name: str, rows: Sequence[New | Changed]) -> Case:
    """A case that holds for every row, and otherwise shows the rows that differ."""

    async def case(env: Environment) -> None:
        answers = [(row, await answer_to(env, row)) for row in rows]
        differ = [f"{row.title}: {answer!r}, not {row.outcome!r}" for row, answer in answers if answer != row.outcome]
        assert not differ, "\n".join(differ)

    case.__name__ = name
    return case
