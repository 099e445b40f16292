"""When a room accepts a pod."""

from reference.affinity import node_meets_any
from reference.amounts import Amounts, fits, in_units, less, requested, requested_by, total
from reference.daemons import still_needed
from reference.domains import domains
from reference.ports import ports_conflict
from reference.run import Room, Run
from reference.topology import allowed_domains, keys_needed, keys_ruled
from reference.volumes import volume_alternatives, volumes_exceed
from reference.wish import Wish


def room_accepts(run: Run, room: Room, wish: Wish) -> bool:
    """All of the page's six conditions, in its order."""
    pod, storage = wish.pod, run.snapshot.storage
    if room.going or not wish.tolerates(room.taints):
        return False
    if volumes_exceed(pod, room.present, dict(storage.attach_limits.get(_node_name(room), {})), storage):
        return False
    if ports_conflict(pod.spec, (other.spec for other in room.present)):
        return False
    left = free(run, room)
    if any(amount < 0 for amount in left.values()) or not fits(requested(pod.spec), left):
        return False
    if not node_meets_any(room.node, wish.alternatives):
        return False
    if not node_meets_any(room.node, volume_alternatives(pod, storage, for_draft=False)):
        return False
    return all(_key_allowed(run, room, wish, key) for key in keys_ruled(run, wish))


def free(run: Run, room: Room) -> Amounts:
    """Allocatable, less pods there, less pods nominated to it, less what its DaemonSets still need."""
    nominated = [
        pod
        for pod in run.snapshot.unbound_pods
        if pod.status.nominated_node_name
        and pod.status.nominated_node_name in {room.name, _node_name(room)}
        and not pod.terminal
        and pod.key not in run.asked
    ]
    taken = total([requested_by(room.present), requested_by(nominated), still_needed(run.snapshot, room)])
    return less(in_units(room.node.allocatable), taken)


def _node_name(room: Room) -> str:
    return room.node.node.name if room.node.node is not None else room.name


def _key_allowed(run: Run, room: Room, wish: Wish, key: str) -> bool:
    here = domains(run, room, key)
    if not here:
        return key not in keys_needed(wish)
    return allowed_domains(run, wish, key, here) == here
