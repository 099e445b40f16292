"""The process dies at any call while it handles a warning or a repair: the next one makes up for it."""

import asyncio

import pytest

from stories import deployment, live, node_class, node_pool, seeded

POOL = node_pool(
    template={"expireAfter": "Never"},
    disruption={"consolidateAfter": "Never"},
    repair={"defaultTolerationDuration": "5s"},
)


class Crash:
    """Lets the process die at its nth call of the API once armed, before or after the call took effect."""

    def __init__(self, at, *, after_effect):
        self.left = at
        self.after_effect = after_effect
        self.armed = False
        self.died = False

    async def before(self, call):
        if self.armed and not self.died and call.operation not in {"list", "watch"}:
            self.left -= 1
            if self.left == 0 and not self.after_effect:
                await self._die()

    async def after(self, _call):
        if self.armed and not self.died and self.left <= 0:  # reads have no effect to die after
            await self._die()

    async def _die(self):
        self.died = True
        await asyncio.Event().wait()  # the call never answers; the process is killed meanwhile


@pytest.mark.parametrize("happening", ["interruption", "repair"])
@pytest.mark.parametrize("after_effect", [False, True])
@pytest.mark.parametrize("at", range(1, 22, 4))
def test_a_crash_at_any_call_is_made_up_for(at, after_effect, happening):
    crash = Crash(at, after_effect=after_effect)

    async def story(life):
        await life.until(lambda: life.running(4) and life.settled())
        (node,) = life.nodes
        crash.armed = True
        if happening == "interruption":
            life.world.instance_failures.warn(node.name)
        else:
            life.world.instance_failures.turn(node.name, "KernelDeadlock", "True")
        for _ in range(120):
            if crash.died:
                break
            await asyncio.sleep(0.25)
        await life.restart()

        def ended():
            return life.running(4) and life.settled() and node.name not in {each.name for each in life.nodes}

        await life.until(ended, within=600)
        assert crash.died

    live(story, node_class(), POOL, deployment(replicas=4), options=seeded(at), interference=crash)
