"""Which topology rules constrain a pod, and which of them count it."""

from builders import NOON, nodepool, snapshot, stamped
from core.scheduling.parts import affinity, anti_affinity, existing, labeled, spread
from dovetail.core.scheduling.problem import Problem
from dovetail.core.scheduling.topology import Topology
from dovetail.model.labels import HOSTNAME, ZONE


def read(*pods, nodes=(), pools=()):
    """The topology of these pods on these nodes, and the shape of each pod."""
    base = Problem(snapshot(nodes=nodes, pools=pools), pods, pools)
    shapes = [shape for _, shape in base.pods_to_reschedule]
    return Topology(base, dict.fromkeys(shapes), respect_preferences=True), shapes


def rules(book, shape):
    return book.rules(book.preference_levels(shape.constraints)[0])


def test_a_pod_without_rules_that_nothing_selects_is_free():
    book, (shape,) = read(labeled("new"))
    assert rules(book, shape).unconstrained
    assert book.counted_by[shape.constraints] == []


def test_equal_rules_of_different_pods_share_one_count():
    book, (first, second) = read(labeled("a", spec=spread()), labeled("b", cpu="2", spec=spread()))
    assert first is not second
    assert rules(book, first).spread[0][0] is rules(book, second).spread[0][0]


def test_counts_start_with_the_pods_on_the_nodes_by_domain():
    nodes = [existing("a", "zone-a", labeled("one", on="a"), labeled("two", on="a")), existing("b", "zone-b")]
    book, (shape,) = read(labeled("new", spec=spread()), nodes=nodes)
    assert rules(book, shape).spread[0][0].counts == {"zone-a": 2}


def test_a_pod_that_is_deleted_does_not_count():
    leaving = labeled("one", on="a", deletionTimestamp=stamped(NOON))
    book, (shape,) = read(labeled("new", spec=spread()), nodes=[existing("a", "zone-a", leaving)])
    assert rules(book, shape).spread[0][0].counts == {}


def test_required_anti_affinity_of_others_constrains_the_pods_it_selects():
    nodes = [existing("a", "zone-a", labeled("old", app="lonely", on="a", spec=anti_affinity(ZONE)))]
    book, (shape,) = read(labeled("new"), nodes=nodes)
    (guard,) = rules(book, shape).anti_affinity
    assert guard.counts == {"zone-a": 1}


def test_anti_affinity_of_others_leaves_pods_it_does_not_select_alone():
    nodes = [existing("a", "zone-a", labeled("old", app="lonely", on="a", spec=anti_affinity(ZONE)))]
    book, (shape,) = read(labeled("new", app="other"), nodes=nodes)
    assert rules(book, shape).unconstrained


def test_a_pod_that_its_own_anti_affinity_selects_is_constrained_from_both_sides():
    book, (shape,) = read(labeled("new", spec=anti_affinity()))
    assert len(rules(book, shape).anti_affinity) == 2
    assert len(book.counted_by[shape.constraints]) == 2


def test_affinity_says_whether_the_pod_matches_itself():
    book, (one, other) = read(labeled("a", spec=affinity(ZONE)), labeled("b", app="other", spec=affinity(ZONE)))
    assert rules(book, one).selects_itself
    assert not rules(book, other).selects_itself


def test_keys_are_those_that_a_draft_has_to_choose_so_hostname_is_not_one():
    book, (by_host, by_zone) = read(labeled("a", spec=spread(HOSTNAME)), labeled("b", spec=spread(ZONE)))
    assert rules(book, by_host).keys == ()
    assert rules(book, by_zone).keys == (ZONE,)


def test_zones_that_a_nodepool_can_provide_are_domains():
    book, (shape,) = read(labeled("new", spec=spread()), pools=[nodepool()])
    assert rules(book, shape).spread[0][0].provided == {"zone-a", "zone-b"}


def test_a_nodepool_whose_taints_the_rule_honors_provides_no_domain():
    pool = nodepool(template={"taints": [{"key": "special", "effect": "NoSchedule"}]})
    book, (shape,) = read(labeled("new", spec=spread(nodeTaintsPolicy="Honor")), pools=[pool])
    assert rules(book, shape).spread[0][0].provided == frozenset()
