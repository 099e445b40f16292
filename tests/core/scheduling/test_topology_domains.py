"""Which domains a pod's topology rules allow, with the counts as they are."""

from builders import snapshot
from core.scheduling.parts import affinity, anti_affinity, existing, labeled, spread
from dovetail.core.scheduling.problem import Problem
from dovetail.core.scheduling.topology import Topology
from dovetail.core.scheduling.topology_domains import AllowedDomains
from dovetail.model.labels import HOSTNAME, ZONE

ZONES = ("zone-a", "zone-b", "zone-c")


def allowed_domains(spec, *zones_of_others, app="web"):
    """The rules of a new pod, while nodes a, b and c are in a zone each and other pods run in the zones named."""
    nodes = [
        existing(name, f"zone-{name}", *(labeled(f"{name}{i}", on=name) for i in range(zones_of_others.count(name))))
        for name in "abc"
    ]
    base = Problem(snapshot(nodes=nodes), [labeled("new", app=app, spec=spec)], [])
    ((_, shape),) = base.pods_to_reschedule
    book = Topology(base, [shape], respect_preferences=True)
    return AllowedDomains(book.rules(book.preference_levels(shape.constraints)[0]))


def allowed_nodes(found):
    return [name for row, name in enumerate("abc") if not found.reason_on_row(row)]


def test_spread_allows_domains_within_max_skew_of_the_smallest_count():
    assert allowed_nodes(allowed_domains(spread(), "a", "b")) == ["c"]
    assert allowed_nodes(allowed_domains(spread(maxSkew=2), "a", "b")) == ["a", "b", "c"]
    assert allowed_nodes(allowed_domains(spread(), "a", "b", "c")) == ["a", "b", "c"]


def test_a_pod_that_its_spread_rule_does_not_select_adds_nothing_itself():
    assert allowed_nodes(allowed_domains(spread(), "a", app="other")) == ["a", "b", "c"]


def test_anti_affinity_allows_only_domains_without_a_selected_pod():
    assert allowed_nodes(allowed_domains(anti_affinity(ZONE), "a")) == ["b", "c"]


def test_affinity_allows_only_domains_with_a_selected_pod():
    assert allowed_nodes(allowed_domains(affinity(ZONE), "b")) == ["b"]


def test_the_first_pod_of_a_group_may_go_anywhere():
    assert allowed_nodes(allowed_domains(affinity(ZONE))) == ["a", "b", "c"]
    assert allowed_nodes(allowed_domains(affinity(ZONE), app="other")) == []


def test_a_draft_chooses_one_domain_for_spread_the_emptiest_first():
    assert allowed_domains(spread(maxSkew=2), "a", "b").domains(ZONE, ZONES) == (["zone-c", "zone-a", "zone-b"], True)


def test_a_draft_keeps_all_domains_that_affinity_allows():
    assert allowed_domains(affinity(ZONE), "a", "b").domains(ZONE, ZONES) == (["zone-a", "zone-b"], False)
    assert allowed_domains(affinity(ZONE), "a", "b", "c").domains(ZONE, ZONES) is None


def test_the_first_pod_of_a_group_chooses_one_domain():
    assert allowed_domains(affinity(ZONE)).domains(ZONE, ZONES) == (list(ZONES), True)


def test_without_known_domains_spread_and_affinity_fail_and_anti_affinity_does_not():
    assert allowed_domains(spread()).domains(ZONE, ()) == ([], True)
    assert allowed_domains(anti_affinity(ZONE)).domains(ZONE, ()) is None


def test_a_new_host_suits_spread_and_anti_affinity_but_not_affinity_to_pods_elsewhere():
    new = 3
    assert allowed_domains(spread(HOSTNAME), "a").reason_on_host(new) == ""
    assert allowed_domains(anti_affinity(), "a").reason_on_host(new) == ""
    assert allowed_domains(affinity(), "a").reason_on_host(new) == "didn't match pod affinity rules"
    assert allowed_domains(affinity()).reason_on_host(new) == ""


def test_a_host_with_a_pod_is_refused_in_the_words_of_the_rule():
    assert allowed_domains(spread(HOSTNAME), "a").reason_on_host(0) == "didn't match pod topology spread constraints"
    assert allowed_domains(anti_affinity(), "a").reason_on_host(0) == "didn't match pod anti-affinity rules"
