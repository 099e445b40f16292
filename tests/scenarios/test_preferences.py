"""`--preference-policy` holds for the provisioner that acts as well as for plans."""

from dataclasses import replace

import pytest

from stories import GENERIC, deployment, live, node_class, node_pool

SELECTOR = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
APART = {"podAffinityTerm": SELECTOR, "weight": 1}
PREFERRED = {
    "spread": {"topologySpreadConstraints": [{**SELECTOR, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}]},
    "anti-affinity": {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [APART]}}},
}


@pytest.mark.parametrize(("policy", "nodes"), [("Respect", 3), ("Ignore", 1)])
@pytest.mark.parametrize("preferred", PREFERRED)
def test_preferences_count_for_what_is_launched_only_where_they_are_respected(preferred, policy, nodes):
    async def story(life):
        await life.until(lambda: life.running(3) and life.settled())
        return len(life.claims)

    web = deployment(replicas=3, cpu="100m", memory="100Mi", **PREFERRED[preferred])
    settings = replace(GENERIC, preference_policy=policy)
    assert live(story, node_class(), node_pool(), web, settings=settings) == nodes
