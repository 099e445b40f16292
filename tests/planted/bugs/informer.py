"""Bugs in informer caches and work queues."""

from planted.bug import Bug

BUGS = (
    Bug(
        id="relist-keeps-ghosts",
        says="Objects that were deleted while the watch was broken stay in the cache after a list.",
        file="runtime/informer.py",
        before="""\
        for key in [key for key in (*self.items, *self.unreadable) if key not in present | newer]:
            self._delete(key)
""",
        after="",
        tests=("tests/runtime/test_informer.py",),
    ),
    Bug(
        id="deleted-objects-come-back",
        says="The late answer to a write brings back an object that is deleted already.",
        file="runtime/informer.py",
        before="        if value.metadata.uid not in self._deleted_uids and self._is_newer(key, value):\n",
        after="        if self._is_newer(key, value):\n",
        tests=("tests/runtime/test_informer.py",),
    ),
    Bug(
        id="stale-watch-resumed",
        says="A watch that was silent for too long is resumed without a list.",
        file="runtime/informer.py",
        before="                if not self._version or self._relist_requested or self.stale:\n",
        after="                if not self._version or self._relist_requested:\n",
        tests=("tests/runtime/test_informer_staleness.py",),
    ),
    Bug(
        id="gone-version-kept",
        says="A watch whose resource version has expired is restarted at the same version.",
        file="runtime/informer.py",
        before="""\
        if isinstance(error, Gone):
            self._version = ""
            return delay
""",
        after="""\
        if isinstance(error, Gone):
            return delay
""",
        tests=("tests/runtime/test_informer.py",),
    ),
    Bug(
        id="versions-compared-as-text",
        says="Resource versions are compared as text: 1000 counts as older than 999.",
        file="runtime/informer.py",
        before="""\
    return (len(version), version) > (len(other), other)  # as numbers, however many digits they have
""",
        after="    return version > other\n",
        tests=("tests/runtime/test_informer.py",),
    ),
    Bug(
        id="own-writes-lost-in-a-list",
        says="Objects written during a list are overwritten by that list.",
        file="runtime/informer.py",
        before="newer = {key for key in self._own_writes if self._later_than(key, listing.resource_version)}",
        after="newer: set[Key] = set()",
        tests=("tests/runtime/test_informer.py", "tests/runtime/test_informer_staleness.py"),
    ),
    Bug(
        id="successor-taken-for-an-update",
        says="An object that replaces a deleted one of the same name is delivered as a change of the old object.",
        file="runtime/informer.py",
        before="""\
        if before is not None and before.metadata.uid != value.metadata.uid:
            self._delete(key)
            before = None
""",
        after="",
        tests=("tests/runtime/test_informer.py",),
    ),
    Bug(
        id="news-during-work-lost",
        says="A key that is added while it is being processed is not processed again.",
        file="runtime/reconciler.py",
        before="""\
        if again is not None:
            self.add(key, max(0.0, again - self._now()))
""",
        after="",
        tests=("tests/runtime/test_reconciler.py",),
    ),
    Bug(
        id="heartbeat-confirms-nothing",
        says="Bookmarks do not refresh the cache: a kind without changes becomes stale.",
        file="runtime/informer.py",
        before="                    self._confirmed_at = loop.time()\n                    self._version",
        after="""\
                    self._confirmed_at = loop.time() if change.object is not None else self._confirmed_at
                    self._version\
""",
        tests=("tests/runtime/test_informer_staleness.py",),
    ),
    Bug(
        id="older-replaces-unreadable",
        says="An older version that can be read replaces a newer one that cannot.",
        file="runtime/informer.py",
        before="""\
        known = self._known(key)
        if known is None or _later(""",
        after="""\
        known = self.items.get(key)
        if known is None or _later(""",
        tests=("tests/runtime/test_informer.py",),
    ),
)
