"""`--node-sizing` decides how the provisioner that acts chooses nodes."""

from dataclasses import replace

import pytest

from dovetail.controllers import provisioner
from stories import GENERIC, deployment, live, node_class, node_pool

REQUIREMENTS = [
    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
    {"key": "karpenter.kwok.sh/instance-family", "operator": "In", "values": ["t4g", "c6g"]},
]


async def count_nodes(life):
    await life.until(lambda: life.running(100) and life.settled())
    return len(life.claims)


def test_nodes_are_chosen_by_price_unless_the_setting_says_one_by_one():
    pool = node_pool(template={"requirements": REQUIREMENTS})
    web = deployment(replicas=100, cpu="900m", memory="1500Mi")
    found = {}
    for way in ("by-price", "one-by-one"):
        settings = replace(GENERIC, catalog="realistic", node_sizing=way)
        found[way] = live(count_nodes, node_class(), pool, web, settings=settings)
    assert found["by-price"] > 2 * found["one-by-one"], "small burstable nodes cost less than large ones"


@pytest.mark.parametrize(("way", "times"), [("by-price", 1), ("one-by-one", 0)])
def test_without_highs_the_controller_says_so_once(way, times, monkeypatch, caplog):
    async def story(life):
        await life.until(lambda: life.running(3) and life.settled())

    monkeypatch.setattr(provisioner, "WITHOUT_HIGHS", "not without HiGHS")
    live(story, node_class(), node_pool(), deployment(replicas=3), settings=replace(GENERIC, node_sizing=way))
    assert caplog.text.count("not without HiGHS") == times
