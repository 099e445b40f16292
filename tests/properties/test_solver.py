"""The solver and the reference solver give the same answer on random clusters that use every feature."""

from collections import Counter

import pytest

from properties.agreement import (
    CASES,
    CHUNKS,
    assert_agreement,
    assert_agreement_as_it_stands,
    assert_sweeps_agree,
    case_of,
    cases_of,
)
from reference.features import features

RAREST = 0.02


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_solver_places_pods_as_the_reference_does(chunk):
    for seed in cases_of(chunk):
        assert_agreement(seed)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_nodes_that_are_going_but_stand_count_as_in_the_reference(chunk):
    for seed in cases_of(chunk):
        if any(node.deleting for node in case_of(seed).snapshot.nodes):
            assert_agreement_as_it_stands(seed)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_sweep_answers_as_the_reference_does(chunk):
    for seed in cases_of(chunk):
        assert_sweeps_agree(seed)


def test_random_clusters_use_every_feature():
    """No feature is rarer than one case in fifty; the table is shown with `-s` or when it fails."""
    seeds = range(min(CASES, 2000))
    seen = Counter(feature for seed in seeds for feature in features(case_of(seed)))
    shares = {name: count / len(seeds) for name, count in sorted(seen.items())}
    table = "\n".join(f"{share:7.1%}  {name}" for name, share in shares.items())
    print(table)  # noqa: T201 - the coverage is part of what this test shows
    assert set(seen) == EVERY_FEATURE, table
    assert min(shares.values()) >= RAREST, table


EVERY_FEATURE = {
    f"{kind}: {what}"
    for kind, whats in {
        "affinity": """matchLabelKeys, mismatchLabelKeys, namespaceSelector, namespaces, over a custom label,
            over capacity type, over hostname, over zone, several terms""",
        "anti-affinity": """matchLabelKeys, mismatchLabelKeys, namespaceSelector, namespaces, over a custom label,
            over capacity type, over hostname, over zone, several terms""",
        "bound pod": "finished, leaving, of a DaemonSet, static, with anti-affinity",
        "daemon set": "any, host port, limits without requests, only on some nodes, with live pods",
        "node": """PreferNoSchedule taint, claim deleted, cordoned, disrupted, launched claim, node deleted,
            over a volume limit, registered|not initialised, unlaunched claim, unmanaged, vanished""",
        "node rule": """DoesNotExist, Exists, Gt, Gte, In, Lt, Lte, NotIn, empty term, old spelling of a label,
            selector, several alternatives""",
        "offering": "on-demand, reserved, spot, unavailable",
        "pod": """displaced, displaced while leaving, extended resource, host port, host port of one address,
            init container, nominated, odd amounts, overhead, pod-level resources, priority, sidecar""",
        "pool": """DoesNotExist, Exists, Gt, Gte, In, Lt, Lte, NoExecute taint, NoSchedule taint, NotIn,
            PreferNoSchedule taint, labels, limit of cpu, limit of memory, limit of nodes, minValues, several,
            startup taint, weight""",
        "preference": "affinity, anti-affinity, ignored, node affinity",
        "spread": """DoNotSchedule, ScheduleAnyway, matchLabelKeys, minDomains, nodeAffinityPolicy Honor,
            nodeAffinityPolicy Ignore, nodeTaintsPolicy Honor, nodeTaintsPolicy Ignore, over a custom label,
            over capacity type, over hostname, over zone, several constraints""",
        "toleration": "Equal, Exists, Gt, Lt",
        "volume": """attach limit, either claim, ephemeral, floating claim, local claim, lost claim, missing claim,
            pending claim, plain claim, several claims, shared claim, zonal claim""",
    }.items()
    for what in (" ".join(each.split()).replace("|", ", ") for each in whats.split(","))
}
