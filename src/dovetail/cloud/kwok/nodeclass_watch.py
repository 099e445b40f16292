"""KWOKNodeClasses need no care: they are watched, so that NodePools hear at once of theirs, and nothing is done."""

from collections.abc import Sequence
from typing import Any

from dovetail.model.kinds import KWOK_NODE_CLASS, Kind
from dovetail.model.kwoknodeclass import KWOKNodeClass
from dovetail.model.nodeclaim import NodeClaim
from dovetail.ports.cloud import Kept


class NodeClassWatch:
    """A keeper with nothing to keep."""

    @property
    def node_class_kind(self) -> Kind[Any]:
        """What it watches."""
        return KWOK_NODE_CLASS

    def definition(self, node_class: KWOKNodeClass) -> object:  # noqa: ARG002 - no instance drifts
        """Nothing is judged by it."""
        return None

    async def keep(self, node_class: KWOKNodeClass, claims: Sequence[NodeClaim]) -> Kept:  # noqa: ARG002 - as said above
        """There is nothing to do, now or later."""
        return Kept(None)
