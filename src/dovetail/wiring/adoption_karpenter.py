"""The part of `dovetail adopt` that is about Karpenter itself: its Deployment, its Lease and its variables.

The Deployment is found by Karpenter's label, or as the owner of the pod that holds the Lease. Its variables are read
before the cluster is, because instance types, prices and decisions depend on them: Dovetail gets the same variables at
the switch.
"""

import os
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from dovetail.core.adoption.facts import (
    KARPENTER_LABEL,
    LEASE_NAME,
    KarpenterDeployment,
    LeaseState,
    UncheckedPart,
    VariableEffect,
)
from dovetail.core.adoption.steps import NOT_PASSED_ON
from dovetail.karpenter_settings import KARPENTER_SETTINGS
from dovetail.kube.cluster_access import ClusterAccess, find_access
from dovetail.kube.raw_reader import PlainObject, RawReader, open_reader
from dovetail.ports.errors import ApiError, Denied, NotFound
from dovetail.settings import Settings, read_environment, setting_fields
from dovetail.wiring.system_clock import SystemClock

T = TypeVar("T")
_DEPLOYMENTS = "/apis/apps/v1/deployments"
_LEASES = "/apis/coordination.k8s.io/v1/leases"
_DECIDING = (
    "FEATURE_GATES",
    "ISOLATED_VPC",
    "MIN_VALUES_POLICY",
    "PREFERENCE_POLICY",
    "RESERVED_ENIS",
    "SCHEDULER_CONFIG",
    "VM_MEMORY_OVERHEAD_PERCENT",
)
"""Variables that decisions depend on, by way of instance types, prices or scheduling."""
_BOOLEANS = frozenset(
    {each.variable for each in setting_fields() if each.kind is bool}
    | {each.variable for each in KARPENTER_SETTINGS if each.kind is bool}
)


@asynccontextmanager
async def reading(access: ClusterAccess) -> AsyncIterator[RawReader]:
    """Open a reader of the API server."""
    reader = await open_reader(access, SystemClock())
    try:
        yield reader
    finally:
        await reader.aclose()


async def read_variables(kubeconfig: Path | None, context: str | None) -> Mapping[str, str]:
    """The variables of Karpenter's Deployment; none if it is not found or cannot be read."""
    async with reading(find_access(kubeconfig, context, os.environ)) as reader:
        karpenter, _ = await KarpenterReader(PartReader(reader)).find()
    return karpenter.environment if karpenter is not None else {}


class PartReader:
    """Reads parts of the facts, and collects those that could not be read."""

    def __init__(self, reader: RawReader) -> None:
        self.reader = reader
        self.unchecked: list[UncheckedPart] = []

    async def attempt(self, what: str, part: Awaitable[T], otherwise: T) -> T:
        """The part, or `otherwise` if the API server does not have it or does not let this account read it."""
        try:
            return await part
        except ApiError as error:
            self.unchecked.append(UncheckedPart(what=what, why=_reason(error)))
            return otherwise


def _reason(error: ApiError) -> str:
    if isinstance(error, Denied):
        return f"this account may not read it: {error}"
    return f"the API server does not have it: {error}" if isinstance(error, NotFound) else str(error)


class KarpenterReader:
    """Finds Karpenter's Deployment and Lease."""

    def __init__(self, parts: PartReader) -> None:
        self._parts = parts
        self._reader = parts.reader

    async def find(self) -> tuple[KarpenterDeployment | None, LeaseState | None]:
        """What is found of the two."""
        karpenter = await self._parts.attempt("Karpenter", self._karpenter(), None)
        lease = await self._parts.attempt("Lease", self._lease(karpenter), None)
        if karpenter is None and lease is not None:
            karpenter = await self._parts.attempt("Karpenter", self._holder(lease), None)
        return karpenter, lease

    async def _karpenter(self) -> KarpenterDeployment | None:
        """The Deployment with Karpenter's label; that with replicas, if there are several."""
        found = [each async for each in self._reader.items(_DEPLOYMENTS, {"labelSelector": KARPENTER_LABEL})]
        found.sort(key=lambda each: -(each["spec"].get("replicas") or 0))
        return await self._deployment(found[0]) if found else None

    async def _holder(self, lease: LeaseState) -> KarpenterDeployment | None:
        """The Deployment of the pod that holds the Lease."""
        apps, pods = (f"/{root}/namespaces/{lease.namespace}" for root in ("apis/apps/v1", "api/v1"))
        pod = lease.holder.partition("_")[0]
        try:
            replica_set = _controller(await self._reader.get(f"{pods}/pods/{pod}"), "ReplicaSet") if pod else ""
            if not replica_set:
                return None
            deployment = _controller(await self._reader.get(f"{apps}/replicasets/{replica_set}"), "Deployment")
            return await self._deployment(await self._reader.get(f"{apps}/deployments/{deployment}"))
        except NotFound:
            return None  # it runs outside the cluster

    async def _deployment(self, plain: PlainObject) -> KarpenterDeployment:
        spec, meta = plain["spec"], plain["metadata"]
        pod = spec["template"]["spec"]
        container = next((each for each in pod["containers"] if each["name"] == "controller"), pod["containers"][0])
        account = pod.get("serviceAccountName", "default")
        path = f"/api/v1/namespaces/{meta['namespace']}/serviceaccounts/{account}"
        owner = await self._parts.attempt("IAM role of Karpenter", self._reader.get(path), {})
        selector = spec["selector"].get("matchLabels") or {}
        return KarpenterDeployment(
            namespace=meta["namespace"],
            name=meta["name"],
            replicas=spec.get("replicas", 1),
            image=container.get("image", ""),
            selector=",".join(f"{key}={value}" for key, value in selector.items()),
            service_account=account,
            role_arn=(owner.get("metadata") or {}).get("annotations", {}).get("eks.amazonaws.com/role-arn", ""),
            environment=container_variables(container),
            unread=tuple(_unread(container)),
        )

    async def _lease(self, karpenter: KarpenterDeployment | None) -> LeaseState | None:
        """Karpenter's Lease. Karpenter's role may allow to read it by name only, so it is read by name if possible."""
        if karpenter is not None:
            name = karpenter.environment.get("LEADER_ELECTION_NAME") or LEASE_NAME
            namespace = karpenter.environment.get("LEADER_ELECTION_NAMESPACE") or karpenter.namespace
            path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"
            return _lease_state(await self._reader.get(path))
        options = {"fieldSelector": f"metadata.name={LEASE_NAME}"}
        found = [_lease_state(each) async for each in self._reader.items(_LEASES, options)]
        return found[0] if found else None


def effects_of(environment: Mapping[str, str]) -> tuple[VariableEffect, ...]:
    """What each variable of Karpenter does in Dovetail; those that are about Karpenter's own pod are left out."""
    passed_on = {name: value for name, value in environment.items() if name not in NOT_PASSED_ON}
    return tuple(_effect_of(name, value) for name, value in passed_on.items())


def _effect_of(name: str, value: str) -> VariableEffect:
    try:
        _, notices = read_environment({}, {name: value})
    except ValueError as error:
        return VariableEffect(name=name, value=value, effect=str(error), refused=True)
    return VariableEffect(
        name=name, value=value, effect="; ".join(each.text for each in notices if each.setting == name)
    )


def decision_settings(settings: Settings, environment: Mapping[str, str]) -> Settings:
    """The settings with those of Karpenter that decisions depend on, as Dovetail would get them at the switch."""
    settings = replace(settings, cluster_name=settings.cluster_name or environment.get("CLUSTER_NAME", ""))
    variables = {name: environment[name] for name in _DECIDING if name in environment}
    try:
        theirs, _ = read_environment({}, variables)
    except ValueError:
        return settings  # the report lists what is wrong with them
    return replace(settings, **{name.lower(): getattr(theirs, name.lower()) for name in variables})


def container_variables(container: PlainObject) -> dict[str, str]:
    """The variables with a value, and the flags, which win, by the name of the variable.

    Flags are read as Go reads them: `--flag=value`, `--flag value`, or with one dash; a boolean one takes only the
    first form.
    """
    variables = {each["name"]: each.get("value", "") for each in container.get("env") or () if "valueFrom" not in each}
    arguments = [str(each) for each in (*(container.get("command") or ()), *(container.get("args") or ()))]
    for argument, following in pairwise([*arguments, "-"]):
        flag, assigned, value = argument.partition("=")
        name = flag.lstrip("-").replace("-", "_").upper()
        if flag.startswith("-") and name:
            alone = "true" if name in _BOOLEANS or following.startswith("-") else following
            variables[name] = value if assigned else alone
    return variables


def _unread(container: PlainObject) -> Iterator[str]:
    """Variables and sources whose values come from other objects; those from the pod itself do not matter."""
    for each in container.get("env") or ():
        source = each.get("valueFrom") or {}
        if "configMapKeyRef" in source or "secretKeyRef" in source:
            yield each["name"]
    for each in container.get("envFrom") or ():
        for kind, word in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
            if kind in each:
                yield f"{word} {each[kind].get('name', '')}"


def _controller(plain: PlainObject, kind: str) -> str:
    owners = plain["metadata"].get("ownerReferences") or ()
    return next((str(each["name"]) for each in owners if each.get("controller") and each.get("kind") == kind), "")


def _lease_state(plain: PlainObject) -> LeaseState:
    meta, spec = plain["metadata"], plain.get("spec") or {}
    held_until = None
    if spec.get("renewTime"):
        lasts = timedelta(seconds=spec.get("leaseDurationSeconds") or 0)
        held_until = datetime.fromisoformat(spec["renewTime"]) + lasts
    return LeaseState(
        namespace=meta["namespace"], name=meta["name"], holder=spec.get("holderIdentity") or "", held_until=held_until
    )
