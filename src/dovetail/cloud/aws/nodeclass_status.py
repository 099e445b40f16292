"""Looks after EC2NodeClasses: resolves what they select, says so in their status, stamps them, and lets them go.

A class that is deleted waits until no NodeClaim refers to it; then what was made for it is removed, and then the
finalizer. What AWS does not answer for a moment changes nothing; what it refuses is said in the condition.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from dovetail.cloud.aws.clients import AwsError
from dovetail.cloud.aws.eks_cluster import EksCluster
from dovetail.cloud.aws.labels import CLASS_HASH, CLASS_HASH_VERSION, INSTANCE_PROFILE_NAME, TERMINATION_FINALIZER
from dovetail.cloud.aws.nodeclass_hash import HASH_VERSION, class_hash
from dovetail.cloud.aws.resolve import conditions as judging
from dovetail.cloud.aws.resolve.amis import Amis
from dovetail.cloud.aws.resolve.capacity_reservations import CapacityReservations
from dovetail.cloud.aws.resolve.instance_profiles import InstanceProfiles
from dovetail.cloud.aws.resolve.network import SecurityGroups, Subnets
from dovetail.model import ec2nodeclass as model
from dovetail.model.conditions import READY, ConditionList, ConditionVerdict, condition_document, find
from dovetail.model.ec2nodeclass import EC2NodeClass, EC2NodeClassStatus
from dovetail.model.kinds import EC2_NODE_CLASS, NODE_CLAIM, Kind
from dovetail.model.kube_object import Condition
from dovetail.model.nodeclaim import DRIFTED, NodeClaim
from dovetail.ports.clock import Clock
from dovetail.ports.cloud import Kept
from dovetail.ports.cluster import Cluster, Patch

RECHECK_SECONDS = 60.0
WAIT_SECONDS = 600.0
Trial = Callable[[EC2NodeClass], Awaitable[ConditionVerdict | None]]
"""Tries a launch without launching; None if all went well."""
Cleanup = Callable[[EC2NodeClass], Awaitable[None]]
"""Removes what else was made for a class, when it goes."""

Care = Callable[[Sequence[NodeClaim]], Awaitable[None]]
"""Looks after the nodes of a class, whenever the class is looked after."""


@dataclass(frozen=True, kw_only=True)
class Resolvers:
    """Who finds what a class selects."""

    subnets: Subnets
    groups: SecurityGroups
    images: Amis
    reservations: CapacityReservations
    profiles: InstanceProfiles
    cluster: EksCluster


class Ec2NodeClassReconciler:
    """Looks after one class at a time. `trial`, `cares` and `cleanups` are for those who launch."""

    def __init__(self, cluster: Cluster, clock: Clock, resolvers: Resolvers) -> None:
        self._cluster = cluster
        self._clock = clock
        self._resolvers = resolvers
        self.trial: Trial | None = None
        self.cares: list[Care] = []
        self.cleanups: list[Cleanup] = [resolvers.profiles.remove_all]

    @property
    def node_class_kind(self) -> Kind[Any]:
        """What it looks after."""
        return EC2_NODE_CLASS

    def definition(self, node_class: EC2NodeClass) -> object:
        """What drift is judged by: the stamp, what the terms resolve to, and whether that is of the spec as it is."""
        status, metadata = node_class.status, node_class.metadata
        ready = find(status.conditions, READY)
        return (
            [metadata.annotations.get(name) for name in (CLASS_HASH, CLASS_HASH_VERSION)],
            ready is not None and ready.observed_generation == metadata.generation,
            status.amis,
            *({each.id for each in some} for some in (status.subnets, status.security_groups)),
            {each.id for each in status.capacity_reservations},
        )

    async def keep(self, node_class: EC2NodeClass, claims: Sequence[NodeClaim]) -> Kept:
        """Bring one class up to date. `claims` are those that refer to it."""
        if node_class.deleting:
            return await self._let_go(node_class, claims)
        node_class = await self._mark(node_class)
        node_class = await self._stamp(node_class, claims)
        status, trouble = await self._resolve(node_class, _profiles_in_use(claims))
        await self._report(node_class, status)
        for care in self.cares:
            await care(claims)
        if trouble is not None:
            raise trouble
        return Kept(RECHECK_SECONDS)

    async def _let_go(self, node_class: EC2NodeClass, claims: Sequence[NodeClaim]) -> Kept:
        if TERMINATION_FINALIZER not in node_class.metadata.finalizers:
            return Kept(None)
        if claims:
            return Kept(WAIT_SECONDS, f"Waiting on NodeClaim termination for {', '.join(_some(claims))}")
        for cleanup in self.cleanups:
            await cleanup(node_class)
        rest = [each for each in node_class.metadata.finalizers if each != TERMINATION_FINALIZER]
        await self._patch(node_class, {"metadata": {"finalizers": rest}})
        return Kept(None)

    async def _mark(self, node_class: EC2NodeClass) -> EC2NodeClass:
        if TERMINATION_FINALIZER in node_class.metadata.finalizers:
            return node_class
        finalizers = [*node_class.metadata.finalizers, TERMINATION_FINALIZER]
        return await self._patch(node_class, {"metadata": {"finalizers": finalizers}})

    async def _stamp(self, node_class: EC2NodeClass, claims: Sequence[NodeClaim]) -> EC2NodeClass:
        """Write the fingerprint. After a change of version, claims are re-stamped first, unless they have drifted."""
        stamp = {CLASS_HASH: class_hash(node_class), CLASS_HASH_VERSION: HASH_VERSION}
        present = node_class.metadata.annotations
        if all(present.get(name) == value for name, value in stamp.items()):
            return node_class
        if present.get(CLASS_HASH_VERSION) != HASH_VERSION:
            for claim in claims:
                await self._restamp(claim, stamp)
        return await self._patch(node_class, {"metadata": {"annotations": stamp}})

    async def _restamp(self, claim: NodeClaim, stamp: dict[str, str]) -> None:
        if claim.metadata.annotations.get(CLASS_HASH_VERSION) == HASH_VERSION:
            return
        drifted = find(claim.status.conditions, DRIFTED) is not None
        written = {name: value for name, value in stamp.items() if not (drifted and name == CLASS_HASH)}
        patch = Patch({"metadata": {"annotations": written}}, claim.metadata.resource_version)
        await self._cluster.patch(NODE_CLAIM, claim.key, patch)

    async def _resolve(
        self, node_class: EC2NodeClass, in_use: frozenset[str] | None
    ) -> tuple[EC2NodeClassStatus, AwsError | None]:
        """The status as it should be, and what kept it from being complete."""
        found = _Findings(node_class.status)
        steps = (
            (model.AMIS_READY, self._images),
            (model.CAPACITY_RESERVATIONS_READY, self._reservations),
            (model.SUBNETS_READY, self._subnets),
            (model.SECURITY_GROUPS_READY, self._groups),
            (model.INSTANCE_PROFILE_READY, lambda node_class: self._profile(node_class, in_use)),
        )
        for condition, step in steps:
            await found.take(condition, step(node_class))
        if found.trouble is None:
            await found.take(model.VALIDATION_SUCCEEDED, self._validate(node_class, found))
        conditions = self._conditions(node_class, found.verdicts)
        return msgspec.structs.replace(found.status, conditions=conditions), found.trouble

    async def _images(self, node_class: EC2NodeClass) -> tuple[dict[str, Any], ConditionVerdict]:
        aliased = any(term.alias for term in node_class.spec.image_terms)  # only those depend on the version
        kubernetes = (await self._resolvers.cluster.facts()).kubernetes if aliased else ""
        images = await self._resolvers.images.find(node_class.spec, kubernetes)
        amis = tuple(image.resolved for image in images)
        return {"amis": amis}, judging.judge_images(node_class.spec, len(amis), kubernetes)

    async def _reservations(self, node_class: EC2NodeClass) -> tuple[dict[str, Any], ConditionVerdict]:
        found = await self._resolvers.reservations.find(node_class.spec.capacity_reservation_selector_terms)
        resolved = {"capacity_reservations": tuple(each.resolved for each in found)}
        return resolved, ConditionVerdict(model.CAPACITY_RESERVATIONS_READY)

    async def _subnets(self, node_class: EC2NodeClass) -> tuple[dict[str, Any], ConditionVerdict]:
        found = await self._resolvers.subnets.find(node_class.spec.subnet_selector_terms)
        return {"subnets": tuple(each.resolved for each in found)}, judging.judge_subnets(len(found))

    async def _groups(self, node_class: EC2NodeClass) -> tuple[dict[str, Any], ConditionVerdict]:
        found = await self._resolvers.groups.find(node_class.spec.security_group_selector_terms)
        return {"security_groups": found}, judging.judge_groups(len(found))

    async def _profile(
        self, node_class: EC2NodeClass, in_use: frozenset[str] | None
    ) -> tuple[dict[str, Any], ConditionVerdict]:
        name = await self._resolvers.profiles.ensure(node_class, in_use)
        return {"instance_profile": name}, judging.judge_profile(name)

    async def _validate(self, node_class: EC2NodeClass, found: "_Findings") -> tuple[dict[str, Any], ConditionVerdict]:
        brought = node_class.spec.instance_profile
        exists = not brought or await self._resolvers.profiles.exists(brought)
        verdict = judging.judge_validation(node_class.spec, found.verdicts, profile_exists=exists)
        if verdict.status == "True" and self.trial is not None:
            verdict = await self.trial(msgspec.structs.replace(node_class, status=found.status)) or verdict
        return {}, verdict

    def _conditions(self, node_class: EC2NodeClass, verdicts: list[ConditionVerdict]) -> tuple[Condition, ...]:
        metadata, now = node_class.metadata, self._clock.now()
        reserves = bool(node_class.spec.capacity_reservation_selector_terms)
        dependents = (*model.DEPENDENTS, *((model.CAPACITY_RESERVATIONS_READY,) if reserves else ()))
        made = ConditionList(
            node_class.status.conditions, dependents, metadata.creation_timestamp or now, metadata.generation, now
        )
        return made.set(*verdicts)

    async def _report(self, node_class: EC2NodeClass, status: EC2NodeClassStatus) -> None:
        if status == node_class.status:
            return
        written = msgspec.json.decode(msgspec.json.encode(status))
        written["conditions"] = [condition_document(each) for each in status.conditions]
        cleared = {name: None for name in msgspec.to_builtins(node_class.status) if name not in written}
        patch = Patch({"status": {**cleared, **written}}, node_class.metadata.resource_version, "status")
        await self._cluster.patch(EC2_NODE_CLASS, node_class.key, patch)

    async def _patch(self, node_class: EC2NodeClass, body: dict[str, Any]) -> EC2NodeClass:
        patch = Patch(body, node_class.metadata.resource_version)
        return await self._cluster.patch(EC2_NODE_CLASS, node_class.key, patch)


class _Findings:
    """What the steps found, one after the other. A step that AWS refuses says so; one it cannot answer is trouble."""

    def __init__(self, status: EC2NodeClassStatus) -> None:
        self.status = status
        self.verdicts: list[ConditionVerdict] = []
        self.trouble: AwsError | None = None

    async def take(self, condition: str, step: Awaitable[tuple[dict[str, Any], ConditionVerdict]]) -> None:
        """Await one step and note what came of it."""
        try:
            resolved, verdict = await step
        except AwsError as error:
            self.trouble = self.trouble or error
            if error.unauthorized:
                self.verdicts.append(judging.refused(condition, error.code, str(error)))
            return
        self.status = msgspec.structs.replace(self.status, **resolved)
        self.verdicts.append(verdict)


def _profiles_in_use(claims: Sequence[NodeClaim]) -> frozenset[str] | None:
    """What the instances of these claims were started with; None if one does not tell."""
    told = [claim.metadata.annotations.get(INSTANCE_PROFILE_NAME, "") for claim in claims]
    return frozenset(told) if all(told) else None


def _some(claims: Sequence[NodeClaim]) -> list[str]:
    names = sorted(claim.name for claim in claims)
    return [*names[:5], *([f"and {len(names) - 5} others"] if len(names) > 5 else [])]
