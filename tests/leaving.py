"""What stories about leaving nodes share: a diary of every change, budgets watched all the way, calls counted."""

import asyncio
from collections import Counter
from datetime import UTC, datetime

from dovetail.model.kube_object import Key
from dovetail.model.labels import TERMINATION_FINALIZER
from dovetail.sim.kubernetes.kinds import NODE, NODE_CLAIM, PDB, POD

QUIET = {"consolidateAfter": "Never"}


class Diary:
    """Every change of pods, nodes and claims with its instant, and every status a budget ever had."""

    def __init__(self, world):
        self._world = world
        self.steps = []
        self.statuses = []
        world.store.listen((POD, NODE, NODE_CLAIM, PDB), self._hear)

    def _hear(self, step):
        self.steps.append((self._world.clock.now(), step))
        if step.after.resource == PDB and step.type != "DELETED":
            self.statuses.append(step.after.plain.get("status") or {})

    def deleted_at(self, uid):
        """When a delete of the object was accepted."""
        return next(at for at, step in self.steps if step.after.uid == uid and step.after.deleting)

    def gone_at(self, uid):
        """When the object was gone."""
        return next((at for at, step in self.steps if step.after.uid == uid and step.type == "DELETED"), None)

    def grace_of(self, uid):
        """The grace seconds a pod was deleted with first."""
        first = next(step for _, step in self.steps if step.after.uid == uid and step.after.deleting)
        return first.after.meta["deletionGracePeriodSeconds"]

    def condition_at(self, uid, kind, status):
        """When a claim's condition first had that status."""
        for at, step in self.steps:
            if step.after.uid == uid:
                for each in (step.after.plain.get("status") or {}).get("conditions") or ():
                    if (each["type"], each["status"]) == (kind, status):
                        return at
        return None

    def broken_budgets(self):
        """Statuses in which fewer pods were healthy than the budget asks for, once it had been met."""
        met, broken = False, []
        for status in self.statuses:
            enough = status.get("currentHealthy", 0) >= status.get("desiredHealthy", 0) > 0
            met = met or enough
            if met and not enough:
                broken.append(status)
        return broken


class Calls:
    """Counts the calls of the API by operation, kind and key; lists and watches are not calls about anybody."""

    def __init__(self):
        self.made = Counter()

    async def before(self, call):
        if call.operation not in {"list", "watch"}:
            self.made[call.operation, call.kind, call.key] += 1

    async def after(self, _call):
        return

    def about(self, *objects):
        """The calls about these objects and their instances, by operation and kind."""
        kinds = {"Instance", *(type(each).__name__ for each in objects)}
        keys = {each.key for each in objects} | {Key("", getattr(each, "provider_id", "")) for each in objects}
        found = Counter()
        for (operation, kind, key), number in self.made.items():
            if kind in kinds and key in keys:
                found[operation, kind] += number
        return found


def instant(text):
    return datetime.fromisoformat(text).astimezone(UTC)


def seconds(span):
    return span.total_seconds()


async def sleep_until(world, at):
    await asyncio.sleep(max((at - world.clock.now()).total_seconds(), 0))


def nothing_left(life, nodes, claims):
    """None of these nodes and claims is there, and nothing that stays is held by a finalizer on its way out."""
    there = {each.metadata.uid for each in (*life.nodes, *life.claims)}
    held = [
        each
        for each in (*life.nodes, *life.claims)
        if each.deleting and TERMINATION_FINALIZER in each.metadata.finalizers
    ]
    return not held and not there & {each.metadata.uid for each in (*nodes, *claims)}
