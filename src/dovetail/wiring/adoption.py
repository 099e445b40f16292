"""Reads the facts of `dovetail adopt` from a cluster that Karpenter runs. Sends reads and access reviews only.

Each part is read on its own. A part that the account may not read, or that the API server does not have, becomes an
`UncheckedPart` with the reason, and the others go on.
"""

import asyncio
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from dovetail.core.adoption.facts import (
    AdoptionFacts,
    CheckedObject,
    InstalledCrd,
    LeaseState,
    Permission,
    PermissionChecks,
    ReportedEvent,
    UncheckedPart,
)
from dovetail.core.adoption.permissions import (
    BINDING,
    NAMESPACE,
    SERVICE_ACCOUNT,
    run_permissions,
    step_permissions,
)
from dovetail.kube.cluster_access import find_access
from dovetail.kube.raw_reader import PlainObject, RawReader
from dovetail.manifest import codec
from dovetail.manifest.crd import RESOURCES
from dovetail.manifest.schema import KINDS, Schema, Scope, schema_of
from dovetail.manifest.validation import faults_of, validate_nodepool
from dovetail.model.ec2nodeclass import EC2NodeClass
from dovetail.model.kinds import EC2_NODE_CLASS
from dovetail.model.snapshot import Snapshot
from dovetail.ports.errors import ApiError, Denied, NotFound
from dovetail.wiring.adoption_aws import with_aws_facts
from dovetail.wiring.adoption_karpenter import KarpenterReader, PartReader, effects_of, reading

_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_BINDING = f"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{BINDING}"
_OBJECTS = (
    ("NodePools", "/apis/karpenter.sh/v1/nodepools"),
    ("EC2NodeClasses", "/apis/karpenter.k8s.aws/v1/ec2nodeclasses"),
    ("KWOKNodeClasses", "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses"),
)
_REVIEWS_AT_ONCE = 8
_REASONS = ("DisruptionBlocked", "Unconsolidatable")
"""Reasons of events in which Karpenter says why it does not disrupt a node."""


async def read_facts(
    kubeconfig: Path | None, context: str | None, snapshot: Snapshot, cluster_name: str
) -> AdoptionFacts:
    """Read everything besides the snapshot, from the API server and, for EC2NodeClasses, from EC2."""
    access = find_access(kubeconfig, context, os.environ)
    async with reading(access) as reader:
        facts_reader = FactReader(reader)
        facts = await facts_reader.read(snapshot)
    if EC2_NODE_CLASS.group not in facts.providers:
        return facts
    return await with_aws_facts(facts, facts_reader.ec2_classes, access, cluster_name)


def facts_of_snapshot(snapshot: Snapshot) -> AdoptionFacts:
    """The facts that a snapshot has; everything else is unchecked."""
    why = "a snapshot does not have it; run adopt on the cluster"
    parts = ["Karpenter", "Settings", "Node classes", "NodeOverlays", "CapacityBuffers", "CRDs", "Lease", "RBAC"]
    pools = snapshot.nodepools.values()
    checked = (CheckedObject(kind="NodePool", name=pool.name, faults=validate_nodepool(pool)) for pool in pools)
    facts = AdoptionFacts(snapshot=snapshot, objects=tuple(checked))
    if EC2_NODE_CLASS.group in facts.providers:
        parts.append("IAM")
    return replace(facts, unchecked=tuple(UncheckedPart(what=each, why=why) for each in parts))


class FactReader:
    """Reads the parts one by one and collects those that it could not read."""

    def __init__(self, reader: RawReader) -> None:
        self._parts = PartReader(reader)
        self.ec2_classes: list[EC2NodeClass] = []
        """The EC2NodeClasses that can be decoded."""

    async def read(self, snapshot: Snapshot) -> AdoptionFacts:
        """Read all parts."""
        karpenter, lease = await KarpenterReader(self._parts).find()
        denied = any(each.what == "Karpenter" for each in self._parts.unchecked)
        if karpenter is None:
            self._parts.unchecked.append(UncheckedPart(what="Settings", why="Karpenter's Deployment was not read"))
        required = step_permissions(karpenter, lease)
        return AdoptionFacts(
            snapshot=snapshot,
            karpenter=karpenter,
            karpenter_missing=karpenter is None and not denied,
            lease=lease,
            crds=await self._parts.attempt("CRDs", self._crds(), ()),
            objects=await self._objects(),
            overlays=await self._names("NodeOverlays", "/apis/karpenter.sh/v1alpha1/nodeoverlays"),
            buffers=await self._names("CapacityBuffers", "/apis/autoscaling.x-k8s.io/v1beta1/capacitybuffers"),
            variables=effects_of(karpenter.environment) if karpenter is not None else (),
            steps_rbac=await self._parts.attempt("RBAC of this account", self._permissions(required), None),
            run_rbac=await self._run_permissions(lease),
            events=await self._parts.attempt("Events", self._events(), ()),
            unchecked=tuple(self._parts.unchecked),
        )

    async def _run_permissions(self, lease: LeaseState | None) -> PermissionChecks | None:
        """The permissions of the service account of `dovetail run`, if its roles are bound already."""
        try:
            await self._parts.reader.get(_BINDING)
            return await self._permissions(run_permissions(lease), (NAMESPACE, SERVICE_ACCOUNT))
        except NotFound:
            why = "its roles are not bound yet: step 2 does it; run adopt again after that step"
        except Denied as error:
            why = f"this account may not ask about others: {error}"
        except ApiError as error:
            why = str(error)
        self._parts.unchecked.append(UncheckedPart(what="RBAC of dovetail run", why=why))
        return None

    async def _permissions(
        self, required: tuple[Permission, ...], account: tuple[str, str] | None = None
    ) -> PermissionChecks:
        """What a service account lacks, or this account if none is given."""
        few = asyncio.Semaphore(_REVIEWS_AT_ONCE)

        async def may(each: Permission) -> bool:
            async with few:
                return await self._parts.reader.may(_attributes(each), account)

        allowed = await asyncio.gather(*map(may, required))
        lacking = tuple(each for each, one in zip(required, allowed, strict=True) if not one)
        return PermissionChecks(asked=required, lacking=lacking)

    async def _crds(self) -> tuple[InstalledCrd, ...]:
        own = {f"{each.kind.plural}.{each.kind.group}" for each in RESOURCES}
        return tuple(
            [installed_crd(each) async for each in self._parts.reader.items(_CRDS) if each["metadata"]["name"] in own]
        )

    async def _objects(self) -> tuple[CheckedObject, ...]:
        found: list[CheckedObject] = []
        for what, path in _OBJECTS:
            for plain in await self._listed(what, path):
                report = faults_of({key: value for key, value in plain.items() if key != "status"})
                name = plain["metadata"]["name"]
                decoded = codec.from_plain(EC2_NODE_CLASS, plain) if plain["kind"] == EC2_NODE_CLASS.name else None
                if isinstance(decoded, EC2NodeClass):
                    self.ec2_classes.append(decoded)
                found.append(CheckedObject(kind=report.kind, name=name, faults=report.faults, warnings=report.warnings))
        return tuple(found)

    async def _names(self, what: str, path: str) -> tuple[str, ...]:
        found = await self._listed(what, path)
        names = ((each["metadata"].get("namespace"), each["metadata"]["name"]) for each in found)
        return tuple("/".join(filter(None, name)) for name in names)

    async def _listed(self, what: str, path: str) -> list[PlainObject]:
        """The objects of a collection; none if the kind is not installed."""

        async def read() -> list[PlainObject]:
            try:
                return [each async for each in self._parts.reader.items(path)]
            except NotFound:
                return []

        return await self._parts.attempt(what, read(), [])

    async def _events(self) -> tuple[ReportedEvent, ...]:
        found: dict[tuple[str, str], tuple[str, ReportedEvent]] = {}
        for reason in _REASONS:
            async for each in self._parts.reader.items("/api/v1/events", {"fieldSelector": f"reason={reason}"}):
                about = each.get("involvedObject") or {}
                event = ReportedEvent(
                    kind=about.get("kind", ""),
                    name=about.get("name", ""),
                    reason=reason,
                    message=each.get("message", ""),
                )
                at = each.get("lastTimestamp") or each.get("eventTime") or ""
                key = event.kind, event.name
                found[key] = max(found.get(key, ("", event)), (at, event), key=lambda pair: pair[0])
        return tuple(event for _, event in found.values())


def installed_crd(plain: PlainObject) -> InstalledCrd:
    """Compare an installed definition with Dovetail's of the same version."""
    meta, spec = plain["metadata"], plain["spec"]
    annotations = meta.get("annotations") or {}
    served = [each for each in spec["versions"] if each.get("served")]
    dropped: list[str] = []
    for version in served:
        scope = Scope(spec["names"]["kind"], version["name"])
        if scope in KINDS and (version.get("storage") or not dropped):
            installed = (version.get("schema") or {}).get("openAPIV3Schema") or {}
            dropped = list(_dropped(schema_of(scope), installed, ""))
    return InstalledCrd(
        name=meta["name"],
        served=tuple(each["name"] for each in served),
        controller_gen=annotations.get("controller-gen.kubebuilder.io/version", ""),
        helm_release=annotations.get("meta.helm.sh/release-name", ""),
        dropped=tuple(each for each in dropped if each.startswith("spec.")),
    )


def _dropped(own: Schema, installed: Schema, path: str) -> Iterator[str]:
    """The paths of the fields of `own` that `installed` does not have; of a whole block, only its own path."""
    if installed.get("x-kubernetes-preserve-unknown-fields"):
        return
    for name, member in (own.get("properties") or {}).items():
        place = f"{path}.{name}" if path else name
        there = (installed.get("properties") or {}).get(name)
        if there is None:
            if isinstance(installed.get("additionalProperties"), dict):
                continue
            yield place
        elif path or name == "spec":
            yield from _dropped(member, there, place)
    for key, mark in (("items", "[]"), ("additionalProperties", ".*")):
        inner, theirs = own.get(key), installed.get(key)
        if isinstance(inner, dict) and isinstance(theirs, dict):
            yield from _dropped(inner, theirs, f"{path}{mark}")


def _attributes(permission: Permission) -> dict[str, str]:
    """The resourceAttributes of an access review; those without a value mean all."""
    resource, _, subresource = permission.resource.partition("/")
    named = {"subresource": subresource, "namespace": permission.namespace, "name": permission.name}
    given = {key: value for key, value in named.items() if value}
    return {"verb": permission.verb, "group": permission.group, "resource": resource, **given}
