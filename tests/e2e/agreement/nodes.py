"""Random nodes as manifests: labels, taints, cordons, sizes."""

from e2e.agreement.words import ARCH, GPU, HOSTNAME, RACK, RACKS, SIZE, SIZES, TEAM, TEAMS, ZONE, ZONES

TAINTS = (
    {"key": "dedicated", "value": "red", "effect": "NoSchedule"},
    {"key": "dedicated", "value": "blue", "effect": "NoExecute"},
    {"key": "slow", "effect": "PreferNoSchedule"},
    {"key": "slow", "value": "very", "effect": "NoSchedule"},
)


def some_node(dice, name):
    return {
        "metadata": {"name": name, "labels": _labels(dice, name)},
        "spec": {"taints": _taints(dice), **({"unschedulable": True} if dice.about("taints", 0.15) else {})},
        "status": {
            "allocatable": (sizes := _sizes(dice)),
            "capacity": sizes,
            "conditions": [{"type": "Ready", "status": "True", "reason": "Test", "message": "there is no kubelet"}],
        },
    }


def _labels(dice, name):
    labels = {HOSTNAME: name if dice.maybe(0.7) else f"host-of-{name}", ARCH: "amd64"}
    for key, values, share in ((ZONE, ZONES, 0.9), (RACK, RACKS, 0.6), (TEAM, TEAMS, 0.5), (SIZE, SIZES, 0.7)):
        if dice.maybe(share):
            labels[key] = dice.pick(values)
    return labels


def _taints(dice):
    if "taints" not in dice.themes:
        return []
    chosen = dice.random.sample(TAINTS, dice.pick((0, 0, 1, 1, 2)))
    return [dict(each) for each in chosen]


def _sizes(dice):
    sizes = {
        "cpu": dice.pick(("1", "2", "1930m", "4")),
        "memory": dice.pick(("1Gi", "4Gi", "7500000Ki", "8Gi")),
        "pods": dice.pick(("3", "8", "110")),
        "ephemeral-storage": dice.pick(("2Gi", "20Gi")),
    }
    if dice.maybe(0.4):
        sizes[GPU] = dice.pick(("1", "2"))
    return sizes
