"""Stories are reproducible, can be cut down, and what they inject does what it says."""

import asyncio

import pytest

from dovetail.cli.torture import tell
from dovetail.ports.cluster import Change
from dovetail.ports.errors import Conflict, Gone, OutcomeUnknown, Unavailable
from dovetail.sim.faults.connection import TroubledStream, WatchTrouble
from dovetail.sim.faults.history import Violation
from dovetail.sim.faults.script import draw_story
from dovetail.sim.faults.shrinking import shrink
from dovetail.sim.faults.story import Piece, Story
from dovetail.sim.faults.trial import Figures, Outcome
from dovetail.sim.faults.trouble import Trouble
from dovetail.sim.loop import run
from dovetail.sim.world import Call

PATCH = Call("patch", "NodeClaim")


def trouble(**told):
    return Trouble(witness=told.get("witness", lambda _: None), died=told.get("died", lambda _: None))


def fault(what, **terms):
    return Piece("f0", 1.0, what, {"calls": "any", "kind": "", "times": 1, **terms})


def test_a_seed_is_a_story_and_tells_the_same_one_every_time():
    assert draw_story(7) == draw_story(7)
    assert draw_story(7) != draw_story(8)


def test_leaving_a_piece_out_changes_no_other():
    whole = draw_story(3)
    dropped = whole.ids[2]
    rest = whole.only(set(whole.ids) - {dropped})
    assert [each for each in whole.pieces if each.id != dropped] == list(rest.pieces)


def test_a_story_replays_exactly():
    story = draw_story(1)
    first, second = tell(story), tell(story)
    assert first.violations == second.violations == ()
    assert first.fingerprint == second.fingerprint
    assert first.figures == second.figures


@pytest.mark.parametrize(
    ("what", "error"),
    [("conflict", Conflict), ("unavailable", Unavailable), ("timeout before effect", OutcomeUnknown)],
)
def test_a_fault_before_the_effect_strikes_as_often_as_it_says(what, error):
    async def story():
        seen = []
        faults = trouble(witness=seen.append)
        faults.arm(fault(what, calls="patch", times=2))
        await faults.before(Call("get", "Node"))
        for _ in range(2):
            with pytest.raises(error):
                await faults.before(PATCH)
        await faults.before(PATCH)
        return seen, faults.injected

    seen, injected = run(story())
    assert seen == [Call("get", "Node"), PATCH]
    assert injected == 2


def test_a_timeout_after_the_effect_lets_the_effect_happen():
    async def story():
        seen = []
        faults = trouble(witness=seen.append)
        faults.arm(fault("timeout after effect"))
        await faults.before(PATCH)
        with pytest.raises(OutcomeUnknown):
            await faults.after(PATCH)
        return seen

    assert run(story()) == [PATCH]


@pytest.mark.parametrize("after", [False, True])
def test_a_process_dies_at_the_call_it_was_told_to_and_does_nothing_more(after):
    async def story():
        seen, downs = [], []
        faults = trouble(witness=seen.append, died=downs.append)
        faults.arm(Piece("f0", 1.0, "crash", {"call": 2, "after": after, "down": 20}))
        await faults.before(PATCH)
        await faults.after(PATCH)
        if after:
            await faults.before(PATCH)
        with pytest.raises(asyncio.CancelledError):
            await (faults.after(PATCH) if after else faults.before(PATCH))
        with pytest.raises(asyncio.CancelledError):
            await faults.before(PATCH)
        return len(seen), downs

    assert run(story()) == (2 if after else 1, [20.0])


class Stream:
    """A watch that tells numbers."""

    def __init__(self):
        self.number = 0

    async def __anext__(self):
        self.number += 1
        return Change("MODIFIED", str(self.number), object())


def test_a_watch_lags_replays_in_order_breaks_and_gets_too_old():
    async def story():
        watches = WatchTrouble()
        stream = TroubledStream(Stream(), "Pod", trouble(), watches)
        told = [(await anext(stream)).resource_version for _ in range(3)]
        watches.replaying["Pod"] = 2
        told += [(await anext(stream)).resource_version for _ in range(3)]
        watches.lagging_until["Pod"] = 12.0
        await anext(stream)
        late = asyncio.get_running_loop().time()
        for broken, error in ((watches.breaking, Unavailable), (watches.too_old, Gone)):
            broken.add("Pod")
            with pytest.raises(error):
                await anext(stream)
        return told, late

    assert run(story()) == (["1", "2", "3", "2", "3", "4"], 12.0)


def test_a_broken_story_is_cut_down_to_what_breaks_the_law():
    pieces = (Piece("p0", 0, "NodePool", needed=True), *(Piece(f"f{n}", n + 1.0, "conflict") for n in range(40)))
    told = []

    def retell(story):
        told.append(story)
        ids = set(story.ids)
        broken = {"f7", "f21"} <= ids
        return Outcome(story, (Violation("a law", 25.0, "broken"),) if broken else (), Figures())

    shortest = shrink(retell(Story(1, pieces, 100.0)), retell)
    assert shortest.story.ids == ("f7", "f21")
    assert len(told) < 65
