"""Plays a snapshot onward until no disruption pass changes anything more, for `dovetail plan --until-stable`.

The run is that of `dovetail simulate` from a snapshot: the real controllers on virtual time, without new workloads and
without interruptions. Whenever the cluster is quiet, the planner looks ahead on that state: it plans a pass at each
later instant at which the decision could differ (a budget window, a protection or a delay ends). If a pass would start
a command within `LONGEST`, playing continues there, in a new world if the time in between is idle. Otherwise the state
is stable.

Nodes expire and are replaced for ever, so expirations in the future do not count as a change. They are played if they
are due while something else happens.

Nothing is played beyond `LONGEST` of virtual time, `MOST_MOVES` moves or `MOST_WORLDS` worlds.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from dovetail.cli.simulation.moves import MoveLog, PlayedMove
from dovetail.cli.simulation.runner import PlayedScenario, play, run_on_virtual_time
from dovetail.cli.simulation.snapshot_scenario import only_managed, snapshot_scenario
from dovetail.core.disruption.methods import METHODS
from dovetail.core.disruption.planner import Planner, plan_pass
from dovetail.core.lifecycle.expiration import expires_at
from dovetail.manifest.snapshot_file import snapshot_bytes
from dovetail.model.reason import Reason
from dovetail.model.snapshot import ClusterNode, Snapshot
from dovetail.settings import DecisionOptions, Settings

LONGEST = timedelta(days=7)
"""Windows of budgets usually repeat every week, so a week shows all of them."""
MOST_MOVES = 2_000
MOST_WORLDS = 100
QUIET_SECONDS = 120.0
"""The cluster is quiet after this long without a change: several times the length of a disruption pass."""
STUCK_SECONDS = 3_600.0
"""The same while a node is being launched or drained: longer than every timeout of the controllers."""
STEP_SECONDS = 10.0
WORTH_A_NEW_WORLD = timedelta(minutes=10)
_INSTANT = timedelta(microseconds=1)

Progress = Callable[[timedelta, int], None]
"""Called regularly with the virtual time that has passed and the number of moves."""


@dataclass(slots=True)
class StableState:
    """What happened until the cluster was stable, and the cluster at the end."""

    before: Snapshot
    after: Snapshot
    moves: list[PlayedMove] = field(default_factory=list)
    evictions: int = 0
    stable: bool = False
    stopped_by: str = ""  # the limit that ended playing, if the state is not stable
    ended_at: datetime | None = None  # of the last change; None if nothing changed

    @property
    def takes(self) -> timedelta:
        """How long it takes at least until the last change."""
        return self.ended_at - self.before.at if self.ended_at is not None else timedelta()

    @property
    def unfinished(self) -> list[str]:
        """Nodes that are still being launched or drained."""
        return [node.name for node in self.after.nodes if _in_motion(node)]

    @property
    def expiring(self) -> int:
        """How many nodes reach their hard expiration within `LONGEST` of the start; they are replaced then."""
        limit = self.before.at + LONGEST
        due = [expires_at(n.claim, self.after.nodepools.get(n.nodepool_name)) for n in self.after.nodes if n.claim]
        return sum(each is not None and each <= limit for each in due)


def play_until_stable(
    snapshot: Snapshot, settings: Settings, progress: Progress = lambda *_: None, longest: timedelta = LONGEST
) -> StableState:
    """Play the snapshot until it is stable, or until a limit is reached."""
    start = only_managed(snapshot)
    found, worlds = StableState(before=start, after=start), 0
    next_at: datetime | None = start.at
    while next_at is not None and not found.stopped_by:
        if worlds == MOST_WORLDS:
            found.stopped_by = f"{MOST_WORLDS} separate times at which nodes are disrupted"
            break
        segment = _Segment(found, settings, start.at + longest, progress)
        found.after = replace(found.after, at=next_at, nominated=frozenset())
        with TemporaryDirectory(prefix="dovetail-") as folder:
            file = Path(folder) / "cluster.json"
            file.write_bytes(snapshot_bytes(found.after))
            next_at = run_on_virtual_time(segment.run(file, worlds))
        worlds += 1
    found.stable = not found.stopped_by
    return found


@dataclass(slots=True)
class _Segment:
    """One world: from an instant with something to do until the cluster is idle."""

    found: StableState
    settings: Settings
    limit_at: datetime
    progress: Progress

    async def run(self, file: Path, number: int) -> datetime | None:
        """Play; returns when the next command would start, or None if there is none within the limits."""
        start = self.found.after.at
        lasts = f"{max(1, int((self.limit_at - start).total_seconds()))}s"
        scenario = snapshot_scenario(self.found.after, file, lasts, self.settings)
        scenario = msgspec.structs.replace(scenario, seed=number)  # names must differ from those of earlier worlds
        async with play(scenario) as played:
            log = MoveLog(start, played.meter, self.found.moves)
            log.watch(played.cluster.world)
            next_at = await self._play(played, log)
            self.found.evictions += played.meter.evictions
            self.found.ended_at = log.last_change_at or self.found.ended_at
            return next_at

    async def _play(self, played: PlayedScenario, log: MoveLog) -> datetime | None:
        while True:
            idle = await self._until_quiet(played, log)
            if self.found.stopped_by:
                return None
            now = self.found.after.at
            next_at = look_ahead(self.found.after, self.settings.options, self.limit_at)
            if next_at is None or (idle and next_at - now >= WORTH_A_NEW_WORLD):
                return next_at
            await asyncio.sleep(max((next_at - now).total_seconds(), STEP_SECONDS))

    async def _until_quiet(self, played: PlayedScenario, log: MoveLog) -> bool:
        """Wait until nothing has changed for a while; returns whether no node is being launched or drained."""
        loop, state, clock = asyncio.get_running_loop(), played.cluster.parts.manager.state, played.cluster.world.clock
        await state.synced()
        seen, since = state.revision, loop.time()
        while True:
            await asyncio.sleep(STEP_SECONDS)
            if state.revision != seen:
                seen, since = state.revision, loop.time()
            self.progress(clock.now() - self.found.before.at, len(log.moves))
            idle = not any(_in_motion(node) for node in state.cluster_nodes())
            late, many = clock.now() >= self.limit_at, len(log.moves) >= MOST_MOVES
            if late or many:
                self.found.stopped_by = f"{MOST_MOVES} moves" if many else _days(self.limit_at - self.found.before.at)
            if late or many or loop.time() - since >= (QUIET_SECONDS if idle else STUCK_SECONDS):
                self.found.after = self._taken(state, clock.now())
                return idle

    def _taken(self, state: Any, now: datetime) -> Snapshot:
        taken: Snapshot = state.snapshot(now, self.found.before.catalogs)
        return replace(taken, well_known=self.found.before.well_known)


def look_ahead(snapshot: Snapshot, options: DecisionOptions, until: datetime) -> datetime | None:
    """The first instant at which a pass over this cluster would start a command; None if there is none until then."""
    planner, at = Planner(options), snapshot.at
    methods: Iterable[Any] = METHODS
    while at <= until:
        context = planner.context(replace(snapshot, at=at, nominated=frozenset()))
        if plan_pass(context, methods=tuple(methods)).commands:
            return at
        if context.wakeup_at is None:
            return None
        at = max(context.wakeup_at, at + _INSTANT)
        methods = [method for method in METHODS if method.reason is not Reason.EXPIRED]
    return None


def _in_motion(node: ClusterNode) -> bool:
    return node.claim is not None and (node.leaving or not node.initialized or node.record is not None)


def _days(span: timedelta) -> str:
    return f"{span.days} day{'s' * (span.days != 1)}" if span >= timedelta(days=1) else str(span)
