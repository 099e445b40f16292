"""Constructs the embedded world, with the real controllers on it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

from dovetail.observe.metrics import PrometheusMetrics, UnseenMetrics
from dovetail.settings import Settings
from dovetail.sim.world import World, WorldOptions
from dovetail.wiring.assembly import Assembly, assemble, keeping
from dovetail.wiring.schema_admission import admit


@dataclass(frozen=True)
class Embedded:
    """A simulated cluster with the real controllers on it."""

    world: World
    parts: Assembly


@asynccontextmanager
async def embedded(options: WorldOptions, settings: Settings, *, seen: bool = True) -> AsyncIterator[Embedded]:
    """The controllers alive on a world of their own. Must be entered on a virtual loop. Only a ledger named is kept.

    A world that is not `seen` while it lives has no events and no metrics: nobody would read them.
    """
    world = World(options, validate=admit)
    kept = replace(settings, ledger=settings.ledger or "off")
    async with AsyncExitStack() as stack:
        ledger = stack.enter_context(keeping(kept, world.clock, "embedded"))
        parts = assemble(world, world.clock, settings, PrometheusMetrics() if seen else UnseenMetrics(), ledger)
        if not seen:
            parts.recorder.mute()
        await stack.enter_async_context(world)
        running = asyncio.get_running_loop().create_task(parts.run(), name="dovetail")
        try:
            yield Embedded(world, parts)
        finally:
            running.cancel()
            await asyncio.wait([running])
            await parts.supplier.aclose()
        if not running.cancelled() and running.exception() is not None:
            raise RuntimeError("the controllers stopped") from running.exception()
