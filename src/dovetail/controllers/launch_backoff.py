"""Writes failed launches on their NodePool, tells them, and counts them.

The record decides when the next launch may be tried (`core.provisioning.launch_backoff`). It is written before a failed
claim is deleted, and one failure is counted once however often it is noted.
"""

import logging
from collections.abc import Iterable

from dovetail.controllers.context import ControllerContext
from dovetail.core.provisioning.launch_backoff import (
    BACKOFF_ANNOTATION,
    FailedLaunch,
    LaunchBackoff,
    LaunchFailureCause,
    after_failure,
    annotation,
    launched_for,
    record_of,
)
from dovetail.model.kinds import NODE_POOL
from dovetail.model.kube_object import Key
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.nodepool import NodePool
from dovetail.model.refusal import RefusalCode
from dovetail.ports.cluster import Notice, Patch
from dovetail.ports.errors import Conflict, WorldError

log = logging.getLogger(__name__)


async def note_given_up(context: ControllerContext, claim: NodeClaim, why: str) -> None:
    """A claim was given up before it became a node."""
    told = f"nodeclaim {claim.name} was given up, {why}"
    await note_failures(
        context, [FailedLaunch(claim, kind, LaunchFailureCause.LAUNCH_FAILED, told) for kind in launched_for(claim)]
    )


async def note_failures(context: ControllerContext, failures: Iterable[FailedLaunch]) -> None:
    """Write failures down. A NodePool that cannot be written is told of in the log; nothing waits for it."""
    by_pool: dict[str, list[FailedLaunch]] = {}
    for failure in failures:
        by_pool.setdefault(failure.claim.nodepool_name, []).append(failure)
    for name, failed in by_pool.items():
        try:
            async with context.noting:
                await _note(context, name, failed)
        except WorldError as error:
            log.warning("failed launch not recorded", extra={"nodepool": name, "error": str(error)})


async def _note(context: ControllerContext, name: str, failures: list[FailedLaunch]) -> None:
    pool = context.state.pool(name)
    if pool is None:
        return
    try:
        await _write(context, pool, failures)
    except Conflict:
        await _write(context, await context.cluster.get(NODE_POOL, Key("", name)), failures)


async def _write(context: ControllerContext, pool: NodePool, failures: list[FailedLaunch]) -> None:
    now = context.clock.now()
    before = record_of(pool, context.state.snapshot(now, {}))
    after = {failure.kind: (after_failure(pool, failure, before, now), failure) for failure in failures}
    new = {kind: entry for kind, entry in after.items() if before.get(kind) != entry[0]}
    text = annotation({**before, **{kind: backoff for kind, (backoff, _) in new.items()}}, now)
    if not new or text == pool.metadata.annotations.get(BACKOFF_ANNOTATION):  # the same: the record is full
        return
    patch = Patch({"metadata": {"annotations": {BACKOFF_ANNOTATION: text}}}, pool.metadata.resource_version)
    pool = context.state.observe(NODE_POOL, await context.cluster.patch(NODE_POOL, pool.key, patch))
    for backoff, failure in new.values():
        context.metrics.count("dovetail_launches_failed_total", nodepool=pool.name, cause=str(failure.cause))
        if backoff.until > now:
            context.recorder.publish(Notice(NODE_POOL, pool, RefusalCode.LAUNCH_BACKOFF, _told(backoff), warning=True))


def _told(backoff: LaunchBackoff) -> str:
    tries = f"{backoff.failures} launch{'es' * (backoff.failures > 1)} in a row did not help"
    return f"No node is launched before {backoff.until:%Y-%m-%dT%H:%M:%SZ} for some pods, {tries}: {backoff.why}"
