"""A loop outlives its rounds."""

import asyncio

import pytest

from dovetail.ports.errors import Unavailable
from dovetail.runtime.concurrency import guarded


@pytest.mark.parametrize("error", [Unavailable("down"), KeyError("bug")])
def test_a_round_that_fails_is_told_and_survived(error, caplog):
    async def step():
        raise error

    assert asyncio.run(guarded("loop", step)) is None
    assert caplog.records


def test_an_assertion_is_not_caught():
    async def step():
        raise AssertionError("we are wrong")

    with pytest.raises(AssertionError):
        asyncio.run(guarded("loop", step))
