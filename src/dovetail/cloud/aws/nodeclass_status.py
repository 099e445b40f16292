"""Reconciles EC2NodeClasses: finalizer, hash annotations, status and conditions.

One reconcile adds the finalizer, writes the hash, resolves every selector into the status, and runs the hooks over the
NodeClaims of the class. If AWS refuses the controller (`access`), the condition of that step and Ready become False
with the cause, and what was resolved before stays. If AWS throttles, or does not answer for less than five minutes, a
condition that is True stays so. The reconcile is retried in all these cases, at least once a minute.

A deleted class keeps its finalizer while NodeClaims refer to it. Then its instance profiles and launch templates are
deleted, and the finalizer is removed.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from dovetail.cloud.aws.access import AccessProblem, Outages, access_problem
from dovetail.cloud.aws.clients import UNREACHABLE, AwsError
from dovetail.cloud.aws.eks_cluster import EksCluster, SelfManagedCluster, ZonalShifts
from dovetail.cloud.aws.labels import CLASS_HASH_VERSION, INSTANCE_PROFILE_NAME, TERMINATION_FINALIZER
from dovetail.cloud.aws.nodeclass_hash import HASH_ANNOTATIONS, HASH_VERSION, hash_annotations
from dovetail.cloud.aws.resolve.amis import Amis
from dovetail.cloud.aws.resolve.capacity_reservations import CapacityReservations
from dovetail.cloud.aws.resolve.conditions import (
    SERVICE_CIDR_UNKNOWN,
    images_condition,
    instance_profile_condition,
    security_groups_condition,
    subnets_condition,
    validation_condition,
)
from dovetail.cloud.aws.resolve.instance_profiles import InstanceProfiles
from dovetail.cloud.aws.resolve.network import SecurityGroups, Subnets
from dovetail.model import ec2nodeclass as model
from dovetail.model.conditions import READY, ConditionList, ConditionVerdict, condition_document, find, is_true
from dovetail.model.ec2nodeclass import EC2NodeClass, EC2NodeClassStatus
from dovetail.model.kinds import EC2_NODE_CLASS, NODE_CLAIM, Kind
from dovetail.model.kube_object import Condition
from dovetail.model.nodeclaim import DRIFTED, NodeClaim
from dovetail.ports.clock import Clock
from dovetail.ports.cloud import Kept
from dovetail.ports.cluster import Cluster, Patch
from dovetail.ports.errors import CloudAccessFailed, CloudError

RECHECK_SECONDS = 60.0
WAIT_SECONDS = 600.0
DryRun = Callable[[EC2NodeClass], Awaitable[ConditionVerdict | None]]
"""Checks the permissions of a launch without launching; None if they suffice."""
Cleanup = Callable[[EC2NodeClass], Awaitable[None]]
"""Deletes AWS resources that were created for a class, when the class is deleted."""
ClaimHook = Callable[[Sequence[NodeClaim]], Awaitable[None]]
"""Runs over the NodeClaims of a class at every reconcile of the class."""


@dataclass(frozen=True, kw_only=True)
class Resolvers:
    """Finds the AWS resources that a class selects."""

    subnets: Subnets
    groups: SecurityGroups
    images: Amis
    reservations: CapacityReservations
    profiles: InstanceProfiles
    cluster: EksCluster | SelfManagedCluster


class Ec2NodeClassReconciler:
    """Reconciles one class at a time. The provider sets `dry_run`, `shifts`, `claim_hooks` and `cleanups`."""

    def __init__(self, cluster: Cluster, clock: Clock, resolvers: Resolvers) -> None:
        self._cluster = cluster
        self._clock = clock
        self._resolvers = resolvers
        self._outages = Outages(clock)
        self.dry_run: DryRun | None = None
        self.shifts: ZonalShifts | None = None
        self.claim_hooks: list[ClaimHook] = []
        self.cleanups: list[Cleanup] = [resolvers.profiles.delete_all]

    @property
    def node_class_kind(self) -> Kind[Any]:
        """The kind that it reconciles."""
        return EC2_NODE_CLASS

    def definition(self, node_class: EC2NodeClass) -> object:
        """The inputs of drift detection: hash, resolved resources, and whether they are of the current generation."""
        status, metadata = node_class.status, node_class.metadata
        ready = find(status.conditions, READY)
        return (
            [metadata.annotations.get(name) for name in HASH_ANNOTATIONS],
            ready is not None and ready.observed_generation == metadata.generation,
            status.amis,
            *({each.id for each in some} for some in (status.subnets, status.security_groups)),
            {each.id for each in status.capacity_reservations},
        )

    async def keep(self, node_class: EC2NodeClass, claims: Sequence[NodeClaim]) -> Kept:
        """Reconcile one class. `claims` are the NodeClaims that refer to it."""
        if not node_class.deleting:
            return await self._reconcile(node_class, claims)
        try:
            return await self._finalize(node_class, claims)
        except AwsError as error:
            raise self._explained(error, self._problem(node_class, error)) from error

    async def _reconcile(self, node_class: EC2NodeClass, claims: Sequence[NodeClaim]) -> Kept:
        node_class = await self._add_finalizer(node_class)
        node_class = await self._write_hash(node_class, claims)
        found = await self._resolve(node_class, _profiles_in_use(claims))
        status = found.status
        await self._write_status(node_class, status)
        for hook in self.claim_hooks:
            await hook(claims)
        if found.error is not None:
            raise self._explained(found.error, found.problem) from found.error
        self._outages.ended(node_class.name)
        shifted = await self.shifts.away_from() if self.shifts is not None else frozenset()
        zones = {
            each.zone: each.zone_id for each in status.subnets if not shifted.isdisjoint((each.zone, each.zone_id))
        }
        return Kept(RECHECK_SECONDS, shifted_zones=zones)

    def _problem(self, node_class: EC2NodeClass, error: AwsError) -> AccessProblem | None:
        """What an operator must change, if a retry will not do."""
        if error.code == UNREACHABLE:
            outage = self._outages.lasts(node_class.name)
            if is_true(node_class.status.conditions, READY) and not outage:
                return None
        return access_problem(error)

    def _explained(self, error: AwsError, problem: AccessProblem | None) -> CloudError:
        return error if problem is None else CloudAccessFailed(problem.reason, problem.message)

    async def _finalize(self, node_class: EC2NodeClass, claims: Sequence[NodeClaim]) -> Kept:
        if TERMINATION_FINALIZER not in node_class.metadata.finalizers:
            return Kept(None)
        if claims:
            return Kept(WAIT_SECONDS, f"Waiting on NodeClaim termination for {', '.join(_abbreviated_names(claims))}")
        for cleanup in self.cleanups:
            await cleanup(node_class)
        finalizers = [each for each in node_class.metadata.finalizers if each != TERMINATION_FINALIZER]
        await self._patch(node_class, {"metadata": {"finalizers": finalizers}})
        return Kept(None)

    async def _add_finalizer(self, node_class: EC2NodeClass) -> EC2NodeClass:
        if TERMINATION_FINALIZER in node_class.metadata.finalizers:
            return node_class
        finalizers = [*node_class.metadata.finalizers, TERMINATION_FINALIZER]
        return await self._patch(node_class, {"metadata": {"finalizers": finalizers}})

    async def _write_hash(self, node_class: EC2NodeClass, claims: Sequence[NodeClaim]) -> EC2NodeClass:
        """Write the hashes. If the version changed, first write them to the claims, except those that have drifted."""
        ca_bundle = self._resolvers.cluster.ca_bundle
        annotations = dict.fromkeys(HASH_ANNOTATIONS) | hash_annotations(node_class, ca_bundle)
        present = node_class.metadata.annotations
        if all(present.get(name) == value for name, value in annotations.items()):
            return node_class
        if present.get(CLASS_HASH_VERSION) != HASH_VERSION:
            for claim in claims:
                await self._update_claim_hash(claim, annotations)
        return await self._patch(node_class, {"metadata": {"annotations": annotations}})

    async def _update_claim_hash(self, claim: NodeClaim, annotations: Mapping[str, str | None]) -> None:
        if claim.metadata.annotations.get(CLASS_HASH_VERSION) == HASH_VERSION:
            return
        drifted = find(claim.status.conditions, DRIFTED) is not None
        written = {CLASS_HASH_VERSION: HASH_VERSION} if drifted else annotations
        patch = Patch({"metadata": {"annotations": written}}, claim.metadata.resource_version)
        await self._cluster.patch(NODE_CLAIM, claim.key, patch)

    async def _resolve(self, node_class: EC2NodeClass, in_use: frozenset[str] | None) -> "_Resolution":
        """Resolve all selectors. The result has the new status, and the first AWS error if it is not complete."""
        found = _Resolution(node_class.status, lambda error: self._problem(node_class, error))
        steps = (
            (model.AMIS_READY, self._images),
            (model.CAPACITY_RESERVATIONS_READY, self._reservations),
            (model.SUBNETS_READY, self._subnets),
            (model.SECURITY_GROUPS_READY, self._groups),
            (model.INSTANCE_PROFILE_READY, lambda node_class: self._profile(node_class, in_use)),
        )
        for condition, step in steps:
            await found.record(condition, step(node_class))
        if found.error is None:
            await found.record(model.VALIDATION_SUCCEEDED, self._validate(node_class, found))
        conditions = self._conditions(node_class, found.verdicts)
        if found.problem is not None:
            conditions = tuple(_with_cause(each, found.problem) for each in conditions)
        found.status = msgspec.structs.replace(found.status, conditions=conditions)
        return found

    async def _images(self, node_class: EC2NodeClass) -> tuple[dict[str, Any], ConditionVerdict]:
        aliased = any(
            term.alias for term in node_class.spec.image_terms
        )  # only an alias depends on the Kubernetes version
        kubernetes = (await self._resolvers.cluster.facts()).kubernetes if aliased else ""
        images = await self._resolvers.images.find(node_class.spec, kubernetes)
        amis = tuple(image.resolved for image in images)
        return {"amis": amis}, images_condition(node_class.spec, len(amis), kubernetes)

    async def _reservations(self, node_class: EC2NodeClass) -> tuple[dict[str, Any], ConditionVerdict]:
        found = await self._resolvers.reservations.find(node_class.spec.capacity_reservation_selector_terms)
        resolved = {"capacity_reservations": tuple(each.resolved for each in found)}
        return resolved, ConditionVerdict(model.CAPACITY_RESERVATIONS_READY)

    async def _subnets(self, node_class: EC2NodeClass) -> tuple[dict[str, Any], ConditionVerdict]:
        found = await self._resolvers.subnets.find(node_class.spec.subnet_selector_terms)
        return {"subnets": tuple(each.resolved for each in found)}, subnets_condition(len(found))

    async def _groups(self, node_class: EC2NodeClass) -> tuple[dict[str, Any], ConditionVerdict]:
        found = await self._resolvers.groups.find(node_class.spec.security_group_selector_terms)
        return {"security_groups": found}, security_groups_condition(len(found))

    async def _profile(
        self, node_class: EC2NodeClass, in_use: frozenset[str] | None
    ) -> tuple[dict[str, Any], ConditionVerdict]:
        name = await self._resolvers.profiles.ensure(node_class, in_use)
        return {"instance_profile": name}, instance_profile_condition(name)

    async def _validate(
        self, node_class: EC2NodeClass, found: "_Resolution"
    ) -> tuple[dict[str, Any], ConditionVerdict]:
        if node_class.spec.family == "AL2023" and not self._resolvers.cluster.knows_service_cidr:
            return {}, SERVICE_CIDR_UNKNOWN
        profile = node_class.spec.instance_profile
        exists = not profile or await self._resolvers.profiles.exists(profile)
        verdict = validation_condition(node_class.spec, found.verdicts, profile_exists=exists)
        if verdict.status == "True" and self.dry_run is not None:
            verdict = await self.dry_run(msgspec.structs.replace(node_class, status=found.status)) or verdict
        return {}, verdict

    def _conditions(self, node_class: EC2NodeClass, verdicts: list[ConditionVerdict]) -> tuple[Condition, ...]:
        metadata, now = node_class.metadata, self._clock.now()
        with_reservations = bool(node_class.spec.capacity_reservation_selector_terms)
        dependents = (*model.DEPENDENTS, *((model.CAPACITY_RESERVATIONS_READY,) if with_reservations else ()))
        conditions = ConditionList(
            node_class.status.conditions, dependents, metadata.creation_timestamp or now, metadata.generation, now
        )
        return conditions.set(*verdicts)

    async def _write_status(self, node_class: EC2NodeClass, status: EC2NodeClassStatus) -> None:
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


class _Resolution:
    """Collects the results of the steps: the new status, a verdict for each condition, and the first AWS error."""

    def __init__(self, status: EC2NodeClassStatus, find_problem: Callable[[AwsError], AccessProblem | None]) -> None:
        self.status = status
        self.verdicts: list[ConditionVerdict] = []
        self.error: AwsError | None = None
        self.problem: AccessProblem | None = None
        self._find_problem = find_problem

    async def record(self, condition: str, step: Awaitable[tuple[dict[str, Any], ConditionVerdict]]) -> None:
        """Await one step and record its result."""
        try:
            resolved, verdict = await step
        except AwsError as error:
            self.error = self.error or error
            if (problem := self._find_problem(error)) is not None:
                self.problem = self.problem or problem
                self.verdicts.append(ConditionVerdict(condition, "False", problem.reason, problem.message))
            return
        self.status = msgspec.structs.replace(self.status, **resolved)
        self.verdicts.append(verdict)


def _with_cause(condition: Condition, problem: AccessProblem) -> Condition:
    """Ready with the cause: NodePools show it, too."""
    if condition.type != READY or condition.status != "False":
        return condition
    return msgspec.structs.replace(condition, reason=problem.reason, message=problem.message)


def _profiles_in_use(claims: Sequence[NodeClaim]) -> frozenset[str] | None:
    """The instance profiles of the claims' instances; None if the annotation is missing on one of them."""
    names = [claim.metadata.annotations.get(INSTANCE_PROFILE_NAME, "") for claim in claims]
    return frozenset(names) if all(names) else None


def _abbreviated_names(claims: Sequence[NodeClaim]) -> list[str]:
    names = sorted(claim.name for claim in claims)
    return [*names[:5], *([f"and {len(names) - 5} others"] if len(names) > 5 else [])]
