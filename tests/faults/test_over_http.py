"""The real client and the real controllers against an API server whose answers go wrong, over HTTP, on virtual time.

Every fault lasts five minutes, and meanwhile people scale a Deployment to nothing and back. The process lives, no
instance ends under a pod, no pod is lost, and a minute after the fault everything is known and disruption works again.
"""

import pytest

from dovetail.model.kinds import POD
from faults.injected import DEEP, Dead, Endless, Garbage, Late, Mangled, Refused, Silent, Truncated
from faults.server import Fault
from faults.survival import survive
from stories import ACTING

HARMLESS = {
    "watch that is late": Late,
    "watch that falls silent": Silent,
    "invalid UTF-8 in a field": lambda: Mangled(b'"nodeName": "', b"\xff", POD),
    "invalid UTF-8 in metadata": lambda: Mangled(b'"uid": "', b"\xff"),
    "nested 5,000 levels": lambda: Mangled(b'"metadata": {', b'"deep": ' + DEEP + b", "),
    "line without end": Endless,
}
BLINDING = {
    "Retry-After of a day": lambda: Refused(429, {"Retry-After": "86400"}),
    "Retry-After of a superscript": lambda: Refused(429, {"Retry-After": "\u00b2"}),
    "500 storm": lambda: Refused(500),
    "truncated JSON": Truncated,
    "HTML": lambda: Garbage(b"<html>bad gateway</html>"),
    "bytes": lambda: Garbage(bytes(range(11, 256))),
    "empty objects": lambda: Garbage(b"{}"),
    "null": lambda: Garbage(b"null"),
}


def test_without_a_fault_the_story_is_lived_through():
    survive(Fault)


@pytest.mark.parametrize("fault", HARMLESS.values(), ids=HARMLESS)
def test_fault(fault):
    survive(fault)


@pytest.mark.parametrize("fault", BLINDING.values(), ids=BLINDING)
def test_fault_that_leaves_nothing_to_be_read_makes_the_process_unready_and_stops_disruption(fault):
    def blind(life):
        assert any("pods are stale" in each for each in life.parts.missing())
        assert life.settled()

    survive(fault, blind)


def test_watches_that_are_dead_for_good_are_given_up_and_lists_take_their_place():
    """Nothing tells that they would speak again, so recovery takes as long as silence is put up with."""
    survive(Dead, recovers=ACTING.watch_stale_after.total_seconds() + 5.0)
