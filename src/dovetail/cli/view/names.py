"""The names that `-o name` prints for a document, in kubectl's form KIND/NAME, so that they can be piped to kubectl."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

Document = Mapping[str, Any]

_NODEPOOL = "nodepool.karpenter.sh"


def _node(document: Document) -> Iterable[str]:
    yield f"node/{document['node']}"


def _nodepool(document: Document) -> Iterable[str]:
    yield f"{_NODEPOOL}/{document['nodepool']}"


NAMES_BY_KIND: Mapping[str, Callable[[Document], Iterable[str]]] = {
    "Plan": lambda plan: (f"node/{name}" for command in plan["commands"] for name in command["nodes"]),
    "NodeExplanation": _node,
    "RemovedNode": _node,
    "NodePoolExplanation": _nodepool,
    "PodExplanation": lambda pod: (f"pod/{pod['pod'].partition('/')[2]}",),
    "BudgetCalendar": _nodepool,
    "ClusterNodes": lambda top: (f"node/{tile['name']}" for tile in top["nodes"]),
    "History": lambda history: (f"decision/{each['id']}" for each in history["decisions"]),
    "Decision": lambda decision: (f"decision/{decision['id']}",),
    "Drain": _node,
    "DrainPreview": _node,
}
"""Plan: the nodes that it would disrupt. History: the ids that `dovetail history` takes."""


def names_in(document: Document) -> list[str]:
    """Return the names that a document is about, each once."""
    return list(dict.fromkeys(NAMES_BY_KIND[document["kind"]](document)))
