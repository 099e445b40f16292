"""Law: an answer that is worked out with caches is the answer worked out with empty ones, whatever input changed.

A story starts from a random cluster and changes one kind of input after the other. The process that lives through it
keeps everything a process keeps; after each change a new process, which has only listed the objects, is asked the same.
Each kind of change must have made a difference to the fresh answer now and then: one that never does proves nothing.
"""

import asyncio
from collections import Counter

import pytest

from properties import policy_changes, workload_changes  # noqa: F401 - they register the changes
from properties.answers import Kept, disruption_of, empty_memos, fresh, provisioning_of, state_of
from properties.inputs import CHANGES, Inputs

WITHOUT_EFFECT = {"pool counts", "catalog copied", "nothing but the version"}
"""Changes after which every answer must be what it was: they are there for the caches."""
OFTEN = {"pod", "node", "claim", "pool", "catalog", "daemon", "budget"}
GROUPS = {"offering": "catalog", "volume": "storage", "storage": "storage", "attach": "storage", "namespace": "storage", "time": "setting", "gates": "setting"}
STORIES, STEPS = 40, 12


def differing(kept, anew):
    """The parts of two answers that differ, as text."""
    return "\n".join(f"{part}:\n  kept  {kept[part]}\n  fresh {anew[part]}" for part in anew if kept[part] != anew[part])


def grouped(kinds):
    """The kinds of changes by what they are about, so that each group comes as often."""
    groups = {}
    for kind in sorted(kinds):
        word = kind.partition(" ")[0]
        groups.setdefault(GROUPS.get(word, word if word in OFTEN else ""), []).append(kind)
    return [groups[word] for word in sorted(groups)]


class Story:
    """One process that lives through all changes of its inputs."""

    def __init__(self, seed):
        self.inputs = Inputs(seed)
        self.seed = seed
        self.earlier = []
        self.said = None
        self.effects = Counter()

    async def live(self):
        self.kept = await fresh(self.inputs)
        groups = grouped(CHANGES)
        await self.compare("the start")
        for _ in range(STEPS):
            kind, memory = self.inputs.rng.choice(self.inputs.rng.choice(groups)), self.inputs.memory()
            if not CHANGES[kind](self.inputs):
                continue
            await self.compare(kind)
            if self.inputs.rng.random() < 0.5:
                self.inputs.restore(memory)
                await self.compare("taking back")
        self.inputs.assert_nothing_was_edited_in_place()

    async def compare(self, kind):
        inputs, events = self.inputs, list(self.inputs.events)
        inputs.events.clear()
        if events:
            await self.kept.follow(events, inputs.rng)
        kept, proposed = self.answer(self.kept)
        with empty_memos():
            anew, _ = self.answer(await fresh(inputs))
        assert kept == anew, f"seed {self.seed}, after {kind}:\n{differing(kept, anew)}"
        said = {part: anew[part] for part in anew if part not in self.observed}
        self.effects[kind] += self.said is not None and self.said != said
        self.said, self.earlier = said, proposed

    def answer(self, kept):
        snapshot = kept.snapshot(self.inputs)
        observed = state_of(kept, snapshot)
        self.observed = observed.keys()
        disruption, proposed = disruption_of(kept, snapshot, self.inputs, self.earlier)
        return {**observed, **disruption, **provisioning_of(kept, snapshot, self.inputs)}, proposed


@pytest.mark.parametrize("chunk", range(4))
def test_answers_with_caches_are_those_with_empty_ones(chunk):
    effects = Counter()
    for seed in range(chunk * STORIES, (chunk + 1) * STORIES):
        story = Story(seed)
        asyncio.run(story.live())
        effects += story.effects
    print(effects)
