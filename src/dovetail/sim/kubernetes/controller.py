"""The base class of the simulated controllers: store listener, work queue and timers.

A controller has no task. It consists of callbacks on the event loop, so an idle controller costs nothing. The work
queue is the set `_queued`: a key that is queued already is not added again, and each key is reconciled after a random
`reaction_delay`. `enqueue_rate_limited` reconciles a key at most once per `rate_limit_seconds`, so that a burst of
changes results in one status update, as with the client-side rate limits of the real controllers.

Random delays come from a generator that is seeded with the class name: renaming a subclass changes every seeded run.
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
"""Shortest and longest delay in seconds; each delay is drawn uniformly from this range."""
RETRY_SECONDS = 60.0


class SimulatedController(Generic[K]):
    """Base of the simulated controllers. `K` is the type of the keys in the work queue."""

    watches: tuple[Resource, ...] = ()
    reaction_delay: DelayRange = (0.01, 0.05)  # from a change to the reconcile
    rate_limit_seconds = 1.0  # between two rate-limited reconciles of one key

    def __init__(self, api: ApiServer, seed: str) -> None:
        self.api = api
        self.store = api.store
        self.rng = random.Random(f"{seed}/{type(self).__name__}")  # noqa: S311 - reproducible, not secret
        self._queued: set[K] = set()
        self._rate_limited: dict[K, bool] = {}  # keys within their rate limit; True: reconcile again when it ends
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._timers_made = 0

    def start(self) -> None:
        """Listen to the store, and handle every existing object as if it had just been added."""
        self.listen()
        now = self.store.loop.time()
        for resource in self.watches:
            for record in self.store.all(resource):
                self.on_change(StoreChange("ADDED", None, record, now))

    def listen(self) -> None:
        """Subscribe to the kinds in `watches`."""
        self.store.listen(self.watches, self.on_change)

    def stop(self) -> None:
        """Unsubscribe from the store and cancel all queued work."""
        self.store.stop_listening(self.on_change)
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._queued.clear()
        self._rate_limited.clear()

    def on_change(self, change: StoreChange) -> None:
        """Handle a change of one of the kinds in `watches`; usually enqueues a key."""
        raise NotImplementedError

    def reconcile(self, key: K) -> None:
        """Bring the objects of one key to their desired state."""
        raise NotImplementedError

    def enqueue(self, key: K) -> None:
        """Reconcile the key after the reaction delay; no effect if it is queued already."""
        if key not in self._queued:
            self._queued.add(key)
            self.later(self.rng.uniform(*self.reaction_delay), self._process, key)

    def enqueue_rate_limited(self, key: K) -> None:
        """Enqueue the key, but not twice within `rate_limit_seconds`."""
        if key in self._rate_limited:
            self._rate_limited[key] = True
        else:
            self._rate_limited[key] = False
            self.later(self.rate_limit_seconds, self._end_rate_limit, key)
            self.enqueue(key)

    def _end_rate_limit(self, key: K) -> None:
        if self._rate_limited.pop(key):
            self.enqueue_rate_limited(key)

    def later(self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts) -> None:
        """Call back after a delay in seconds, unless the controller is stopped before."""
        self._timers_made += 1
        number = self._timers_made
        self._timers[number] = self.store.loop.call_later(delay, self._fire, number, callback, args)

    def _fire(self, number: int, callback: Callable[..., object], args: tuple[object, ...]) -> None:
        del self._timers[number]
        callback(*args)

    def _process(self, key: K) -> None:
        self._queued.discard(key)
        if key in self._rate_limited:
            self._rate_limited[key] = False
        try:
            self.reconcile(key)
        except (Denied, Invalid):  # admission refused a pod template: retry, as real controllers do
            self.later(RETRY_SECONDS, self.enqueue, key)
