"""Random wishes of pods about nodes and about other pods, as manifests that an API server accepts."""

from e2e.agreement.words import (
    APPS,
    ARCH,
    HOSTNAME,
    NAMESPACES,
    RACK,
    RACKS,
    SIZE,
    TEAM,
    TEAMS,
    ZONE,
    ZONES,
)

MORE_THAN_THERE_ARE = 50
"""Nodes."""
KEYS = (HOSTNAME,) * 4 + (ZONE,) * 5 + (RACK,) * 2 + (TEAM,)


def expression(key, operator, *values):
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def some_selector(dice):
    if not dice.about("nodes", 0.3):
        return {}
    key, value = dice.pick(
        ((ZONE, dice.pick(ZONES)), (ARCH, "amd64"), (TEAM, dice.pick(TEAMS)), (RACK, dice.pick(RACKS)))
    )
    return {key: value}


def some_node_affinity(dice):
    if not dice.about("nodes", 0.6):
        return None
    terms = [_term(dice) for _ in range(dice.pick((1, 1, 2, 3)))]
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}


def _term(dice):
    count = 0 if dice.maybe(0.06) else dice.pick((1, 1, 2, 3))
    return {"matchExpressions": [_node_expression(dice) for _ in range(count)]} if count else {}


def _node_expression(dice):
    return dice.pick(
        (
            expression(ZONE, "In", *dice.some(ZONES)[:2]),
            expression(ZONE, "NotIn", dice.pick(ZONES)),
            expression(SIZE, "Gt", dice.pick(("1", "7", "15"))),
            expression(SIZE, "Lt", dice.pick(("3", "9", "17"))),
            expression(SIZE, "NotIn", dice.pick(("2", "8"))),
            expression(TEAM, dice.pick(("In", "NotIn")), dice.pick(TEAMS)),
            expression(TEAM, dice.pick(("Exists", "DoesNotExist"))),
            expression(RACK, dice.pick(("Exists", "DoesNotExist"))),
            expression(RACK, dice.pick(("In", "NotIn")), *dice.some(RACKS)),
        )
    )


def some_tolerations(dice):
    if "taints" not in dice.themes:
        return []
    choices = (
        {"operator": "Exists"},
        {"key": "dedicated", "operator": "Equal", "value": "red", "effect": "NoSchedule"},
        {"key": "dedicated", "value": "blue"},
        {"key": "dedicated", "operator": "Exists"},
        {"key": "slow", "operator": "Exists", "effect": "PreferNoSchedule"},
        {"key": "slow", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"},
    )
    return [dict(each) for each in dice.random.sample(choices, dice.pick((0, 1, 1, 2, 3)))]


def some_pod_terms(dice, app, theme, chance):
    if not dice.about(theme, chance):
        return None
    terms = [_pod_term(dice, app) for _ in range(dice.pick((1, 1, 1, 2)))]
    return {"requiredDuringSchedulingIgnoredDuringExecution": terms}


def _pod_term(dice, app):
    term = {"topologyKey": dice.pick(KEYS)}
    if selector := some_label_selector(dice, app):
        term["labelSelector"] = selector
        if dice.maybe(0.2):
            term["matchLabelKeys"] = ["hash"]
        if dice.maybe(0.2):
            term["mismatchLabelKeys"] = ["batch"]
    if dice.maybe(0.2):
        term["namespaces"] = dice.some(tuple(NAMESPACES))[:2]
    if dice.maybe(0.25):
        term["namespaceSelector"] = _namespace_selector(dice)
    return term


def _namespace_selector(dice):
    return dice.pick(
        (
            {},
            {"matchLabels": {"tier": dice.pick(("front", "back"))}},
            {"matchExpressions": [expression("kubernetes.io/metadata.name", "In", "agree-lab", "agree-front")]},
            {"matchExpressions": [expression("tier", "Exists")]},
        )
    )


def some_label_selector(dice, app):
    """Mostly the pod's own app; now and then everything ({}), nothing (None) or what others carry."""
    own = {"matchLabels": {"app": app}}
    other = {"matchLabels": {"app": dice.pick(APPS)}}
    listed = {"matchExpressions": [expression("app", dice.pick(("In", "NotIn")), app)]}
    tracked = {"matchExpressions": [expression("track", dice.pick(("Exists", "DoesNotExist")))]}
    everything = {"matchExpressions": []}
    return dice.pick((own, own, own, own, other, other, listed, tracked, everything, None if dice.maybe(0.7) else own))


def some_spreads(dice, app):
    if not dice.about("spread", 0.7):
        return []
    spreads = [_spread(dice, app) for _ in range(dice.pick((1, 1, 2)))]
    return list({(each["topologyKey"], each["whenUnsatisfiable"]): each for each in spreads}.values())


def _spread(dice, app):
    spread = {
        "topologyKey": dice.pick(KEYS),
        "maxSkew": dice.pick((1, 1, 1, 2)),
        "whenUnsatisfiable": "DoNotSchedule",
        "nodeAffinityPolicy": dice.pick(("Honor", "Honor", "Ignore")),
        "nodeTaintsPolicy": dice.pick(("Ignore", "Honor")),
    }
    if selector := some_label_selector(dice, app):
        spread["labelSelector"] = selector
        if dice.maybe(0.25):
            spread["matchLabelKeys"] = ["hash"]
    if spread["topologyKey"] == HOSTNAME:
        spread["minDomains"] = MORE_THAN_THERE_ARE  # so that the scheduler's minimum is 0 too
    elif dice.maybe(0.3):
        spread["minDomains"] = dice.between(1, 4)
    return spread
