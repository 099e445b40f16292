"""What is asked of the schema of a custom kind: every different object, and what is made alike only once."""

import pytest

from dovetail.ports.errors import Invalid
from dovetail.sim.kubernetes.kinds import NODE_CLAIM
from dovetail.sim.virtual_loop import run
from dovetail.sim.world import World


class Schema:
    """Fills in a default, refuses what is too small, and remembers the names it was asked about."""

    def __init__(self):
        self.asked = []

    def __call__(self, _resource, _before, after):
        self.asked.append(after["metadata"]["name"])
        if after["spec"]["size"] < 0:
            raise Invalid("spec.size: too small")
        return {**after, "spec": {"expireAfter": "720h", **after["spec"]}}


def claim(size, **metadata):
    metadata = metadata or {"generateName": "default-"}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": metadata, "spec": {"size": size}}


def created(*claims):
    """The records of the claims, and what the schema was asked."""

    async def main():
        schema = Schema()
        world = World(validate=schema)
        return [world.api.create(NODE_CLAIM, each) for each in claims], schema.asked

    return run(main())


def test_claims_that_differ_in_their_generated_name_alone_are_checked_once():
    (first, second), asked = created(claim(1), claim(1))
    assert asked == [first.key.name]
    assert second.plain["spec"] == {"expireAfter": "720h", "size": 1}
    assert (first.key, first.uid) != (second.key, second.uid)
    assert second.meta["name"] == second.key.name


def test_claims_that_differ_in_anything_else_are_checked_each():
    labelled = claim(1, generateName="default-", labels={"a": "b"})
    made, asked = created(claim(1), claim(2), labelled, claim(1, generateName="other-"))
    assert asked == [each.key.name for each in made]
    assert [each.plain["spec"]["size"] for each in made] == [1, 2, 1, 1]


def test_a_name_that_was_chosen_is_always_checked():
    _, asked = created(claim(1, name="a", generateName="x-"), claim(1, name="b", generateName="x-"))
    assert asked == ["a", "b"]


def test_a_refusal_is_not_cached_as_accepted():
    async def main():
        world = World(validate=Schema())
        for _ in range(2):
            with pytest.raises(Invalid):
                world.api.create(NODE_CLAIM, claim(-1))

    run(main())
