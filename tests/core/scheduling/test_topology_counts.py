"""Counts of pods by topology domain, and the journal that takes changes back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.core.scheduling.topology_counts import (
    AffinityCounts,
    AntiAffinityCounts,
    HostPods,
    HostSpreadCounts,
    Journal,
    SpreadCounts,
    TopologyCounts,
)
from dovetail.core.scheduling.topology_rules import AffinityRule, Selector, SpreadRule, Term
from dovetail.model.labels import HOSTNAME, ZONE

WEB = Selector(frozenset({"default"}), (("app", "In", ("web",)),))


def spread_counts(rows=("a", "b"), provided=(), eligible=None, key=ZONE, **fields):
    rule = SpreadRule(
        key,
        WEB,
        **{"max_skew": 1, "min_domains": 0, "held_keys": (key,), "alternatives": None, "tolerations": None} | fields,
    )
    return SpreadCounts(rule, rows, eligible or [True] * len(rows), provided)


operations = st.lists(st.tuples(st.sampled_from("xyz"), st.integers(-3, 3), st.booleans()))


@given(operations, operations)
def test_undo_restores_what_was_there_at_the_mark(before, after):
    journal, table = Journal(), {}

    def apply(steps):
        for key, amount, counted in steps:
            if counted:
                journal.bump(table, key, amount)
            else:
                journal.put(table, key, amount or 1)  # a count of zero is always absent

    apply(before)
    mark, expected = journal.mark(), dict(table)
    apply(after)
    journal.undo(mark)
    assert table == expected


def test_a_count_that_returns_to_zero_is_removed():
    journal, table = Journal(), {}
    journal.bump(table, "a", 1)
    journal.bump(table, "a", -1)
    assert table == {}


def test_committed_changes_cannot_be_undone():
    journal, table = Journal(), {}
    journal.put(table, "a", 1)
    journal.commit()
    journal.undo(0)
    assert table == {"a": 1}


def test_a_node_is_its_own_domain_for_hostname_and_else_its_label_decides():
    assert TopologyCounts(HOSTNAME, ()).domain(7) == 7
    assert TopologyCounts(ZONE, ["a", None]).domain(0) == "a"
    assert TopologyCounts(ZONE, ["a", None]).domain(1) is None


def test_anti_affinity_allows_domains_without_a_pod_and_nodes_without_the_label():
    counts = AntiAffinityCounts(Term(ZONE, WEB), ["a"])
    counts.counts["a"] = 1
    assert not counts.allows("a")
    assert counts.allows("b")
    assert counts.allows(None)


def test_affinity_knows_whether_any_pod_matches():
    part = TopologyCounts(ZONE, ["a"])
    counts = AffinityCounts(AffinityRule((Term(ZONE, WEB),)), [part])
    assert counts.is_empty
    part.counts["a"] = 1
    assert not counts.is_empty


@pytest.mark.parametrize(
    ("counts", "provided", "least"),
    [
        ({"a": 2, "b": 1}, (), 1),
        ({"a": 2}, (), 0),  # b has none
        ({"a": 2, "b": 1}, ("c",), 0),  # a NodePool could provide c
        ({"a": 2, "b": 1, "x": 0}, (), 1),  # x is not a domain of any node
    ],
)
def test_the_smallest_count_is_over_domains_of_nodes_and_of_nodepools(counts, provided, least):
    topology_counts = spread_counts(provided=provided)
    topology_counts.counts.update(counts)
    assert topology_counts.smallest_count() == least


@pytest.mark.parametrize(("min_domains", "least"), [(2, 1), (3, 0)])
def test_with_fewer_domains_than_min_domains_the_smallest_count_is_zero(min_domains, least):
    topology_counts = spread_counts(min_domains=min_domains)
    topology_counts.counts.update({"a": 1, "b": 1})
    assert topology_counts.smallest_count() == least


def host_spread(*pods, eligible=(True, True)):
    """Counts of hostname spread on two nodes and a draft (number 2); `pods` are on all three, and the first counts."""
    hosts = HostPods()
    hosts.pods.update(dict.fromkeys(range(3), pods))
    topology_counts = HostSpreadCounts(spread_counts(rows=(), key=HOSTNAME).rule, eligible, hosts)
    topology_counts.selected.update(pods[:1])
    return topology_counts, hosts


def test_for_hostname_the_smallest_count_is_zero_since_a_new_node_is_possible():
    topology_counts, _ = host_spread("web")
    assert topology_counts.smallest_count() == 0
    assert topology_counts.exceeds_skew(0, 1)
    assert not topology_counts.exceeds_skew(3, 1)


def test_hostname_spread_counts_each_selected_pod_of_the_host():
    topology_counts, _ = host_spread("web", "other", "web")
    assert topology_counts.count(0) == 2


def test_hostname_spread_counts_no_pod_on_a_host_that_is_not_eligible():
    topology_counts, hosts = host_spread("web", eligible=(True, False))
    assert [topology_counts.count(host) for host in range(3)] == [1, 0, 1]
    hosts.draft_is_eligible = lambda _, number: number != 2
    assert [topology_counts.count(host) for host in range(3)] == [1, 0, 0]


def test_pods_on_nodes_that_are_not_eligible_do_not_count_and_their_domain_is_unknown():
    topology_counts = spread_counts(eligible=[True, False])
    assert topology_counts.counts_on(0)
    assert not topology_counts.counts_on(1)
    assert topology_counts.nodes_by_domain == {"a": 1}


def test_a_domain_is_known_while_a_node_has_it():
    topology_counts, journal = spread_counts(rows=("a", "a", "b")), Journal()
    topology_counts.counts.update({"a": 1})
    assert topology_counts.smallest_count() == 0
    topology_counts.drop_row(2, journal)
    assert topology_counts.nodes_by_domain == {"a": 2}
    assert topology_counts.smallest_count() == 1
    journal.undo(0)
    assert topology_counts.smallest_count() == 0
