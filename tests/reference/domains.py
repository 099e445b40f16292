"""The domain of a bin for a topology key, and what it may still become."""

from dovetail.model.labels import HOSTNAME
from reference.market import possible_domains
from reference.run import Bin, Draft, Room, Run


def own_domain(each: Bin) -> str:
    """For the hostname every bin is a domain of its own."""
    return f"room {each.name}" if isinstance(each, Room) else f"draft {each.number}"


def domains(run: Run, each: Bin, key: str) -> set[str]:
    """Every domain the bin may be in; empty if it has not the key."""
    if key == HOSTNAME:
        return {own_domain(each)}
    if isinstance(each, Draft):
        return possible_domains(run, each.requirements, each.types, key)
    return _domain_of_room(each, key)


def _domain_of_room(room: Room, key: str) -> set[str]:
    """The label's value. Before launch it is known only if one value is left; until then the key is missing."""
    if room.node.launched:
        value = room.node.labels.get(key)
        return set() if value is None else {value}
    left = room.node.requirements.get(key)
    return set(left.values) if not left.complement and len(left.values) == 1 else set()


def settled_domain(run: Run, each: Bin, key: str) -> str | None:
    """The domain pods count in for spread and affinity: the only one left."""
    left = domains(run, each, key)
    return left.pop() if len(left) == 1 else None


def has_key(run: Run, each: Bin, key: str) -> bool:
    """Whether there will be such a label. A draft that may still become several domains has the key."""
    return bool(domains(run, each, key))
