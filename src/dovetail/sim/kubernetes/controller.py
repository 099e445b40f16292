"""What every simulated controller stands on: it hears of changes, plans work for later, and can be switched off.

An agent has no task of its own: it is callbacks on the loop, so it costs nothing while nothing happens. Work on one key
is planned once, however often it is asked for. Work that can wait is done at once too, but then not again for a moment:
a client that may only make so many calls a second reports the count of a burst, not of each that is in it.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Generic, TypeVar, TypeVarTuple, Unpack

from dovetail.ports.errors import Denied, Invalid
from dovetail.sim.kubernetes.api_server import ApiServer
from dovetail.sim.kubernetes.kinds import Resource
from dovetail.sim.kubernetes.store import StoreChange

K = TypeVar("K")
Ts = TypeVarTuple("Ts")

DelayRange = tuple[float, float]
"""Shortest and longest delay in seconds; each one is drawn from between."""
RETRY_SECONDS = 60.0


class SimulatedController(Generic[K]):
    """Base of the simulated controllers."""

    watches: tuple[Resource, ...] = ()
    reaction_delay: DelayRange = (0.01, 0.05)  # between hearing of a change and acting on it
    rest = 1.0  # between two times that one key is reconciled without need for haste

    def __init__(self, api: ApiServer, seed: str) -> None:
        self.api = api
        self.store = api.store
        self.rng = random.Random(f"{seed}/{type(self).__name__}")  # noqa: S311 - reproducible, not secret
        self._planned: set[K] = set()
        self._resting: dict[K, bool] = {}  # nudged a moment ago; True: and once more since
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._timers_made = 0

    def start(self) -> None:
        """Begin to listen, and look at what is there already."""
        self.listen()
        now = self.store.loop.time()
        for resource in self.watches:
            for record in self.store.all(resource):
                self.on_change(StoreChange("ADDED", None, record, now))

    def listen(self) -> None:
        """Ask the store for the changes this agent wants."""
        self.store.listen(self.watches, self.on_change)

    def stop(self) -> None:
        """Hear nothing and do nothing any more."""
        self.store.stop_listening(self.on_change)
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._planned.clear()
        self._resting.clear()

    def on_change(self, change: StoreChange) -> None:
        """A change of one of the kinds this agent hears."""
        raise NotImplementedError

    def reconcile(self, key: K) -> None:
        """Do what is to be done for one key."""
        raise NotImplementedError

    def enqueue(self, key: K) -> None:
        """Reconcile the key soon."""
        if key not in self._planned:
            self._planned.add(key)
            self.later(self.rng.uniform(*self.reaction_delay), self._due, key)

    def enqueue_rate_limited(self, key: K) -> None:
        """Reconcile the key as soon as that has not been asked for in this way for a moment."""
        if key in self._resting:
            self._resting[key] = True
        else:
            self._resting[key] = False
            self.later(self.rest, self._rested, key)
            self.enqueue(key)

    def _rested(self, key: K) -> None:
        if self._resting.pop(key):
            self.enqueue_rate_limited(key)

    def later(self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts) -> None:
        """Call back after a delay, unless the agent is stopped before."""
        self._timers_made += 1
        number = self._timers_made
        self._timers[number] = self.store.loop.call_later(delay, self._fire, number, callback, args)

    def _fire(self, number: int, callback: Callable[..., object], args: tuple[object, ...]) -> None:
        del self._timers[number]
        callback(*args)

    def _due(self, key: K) -> None:
        self._planned.discard(key)
        if key in self._resting:
            self._resting[key] = False
        try:
            self.reconcile(key)
        except (Denied, Invalid):  # a template that admission refuses: tried again, as the controllers of a cluster do
            self.later(RETRY_SECONDS, self.enqueue, key)
