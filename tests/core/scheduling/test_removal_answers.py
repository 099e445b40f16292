"""Results of removals survive a change that leaves them as they are, and no other."""

from dataclasses import replace

from acceptance.fleet import ON_DEMAND, cluster, free
from acceptance.fleet import worker as sold_worker
from builders import LARGE, SMALL, instance_type, node, pod, snapshot
from dovetail.core.scheduling.catalog_table import CatalogTable, price_changes
from dovetail.core.scheduling.daemon_overhead import RunningDaemons
from dovetail.core.scheduling.removal_simulation import RemovalSimulation
from dovetail.core.scheduling.repricing import catalog_changes
from dovetail.model.labels import INITIALIZED, REGISTERED, ZONE

READY = {REGISTERED: "true", INITIALIZED: "true"}
WEB = {"labels": {"app": "web"}}
BY_HOST = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
APART = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [BY_HOST]}}}
EVENLY = {
    "topologySpreadConstraints": [
        {
            "topologyKey": ZONE,
            "maxSkew": 1,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
    ]
}


def worker(name, *pods, cpu="4", zone="zone-a"):
    """A node that is ready, with these pods on it."""
    return replace(sold_worker(name, *pods, zone=zone), node=node(name, cpu=cpu, labels={**READY, ZONE: zone}))


def simulated(*nodes, **fields):
    """A simulation without NodePools that may launch nodes, and the kind of each removal."""
    simulation = RemovalSimulation(snapshot(nodes=nodes, **fields), [])
    for row in simulation.rows:
        simulation.remove(row)
    return simulation


def kind(simulation, name):
    return simulation.remove(simulation.row(name)).kind


def follow(simulation, node, *, closed=False):
    assert simulation.follow(simulation.row(node.name), node, closed=closed)


def gone(simulation, name):
    assert simulation.remove_node(simulation.row(name))


def port(number):
    return {"containers": [{"name": "main", "ports": [{"hostPort": number, "containerPort": number}]}]}


def test_a_result_survives_a_node_that_took_none_of_its_pods():
    nodes = [worker("a", pod("one", "1", on="a")), worker("b", cpu="8"), worker("c"), worker("d"), worker("e")]
    simulation = simulated(*nodes)
    known = simulation.remove(simulation.row("a"))
    gone(simulation, "e")
    assert simulation.remove(simulation.row("a")) is known
    gone(simulation, "b")
    assert simulation.remove(simulation.row("a")) is not known
    assert kind(simulation, "a") == "delete"


def test_a_node_that_is_gone_no_longer_takes_the_pods_of_equal_nodes():
    """The second of two equal full nodes got its result from the first."""
    pair = [worker(name, pod(f"pod-{name}", "2", on=name), cpu="2") for name in ("a", "b")]
    simulation = simulated(*pair, worker("c", cpu="2"))
    assert (kind(simulation, "a"), kind(simulation, "b")) == ("delete", "delete")
    gone(simulation, "c")
    assert (kind(simulation, "a"), kind(simulation, "b")) == ("stay", "stay")


def test_the_last_node_of_a_zone_ends_the_zone_for_spread():
    """Zone c has no pod, so zone b may have one at most, until zone c is gone."""
    web = [pod(f"web-{on}", "1", on=on, metadata=WEB, spec=EVENLY) for on in ("a", "b")]
    a, b = worker("a", web[0], zone="zone-a"), worker("b", web[1], zone="zone-b")
    simulation = simulated(a, b, worker("c", cpu="500m", zone="zone-c"))
    assert kind(simulation, "a") == "stay"
    gone(simulation, "c")
    assert kind(simulation, "a") == "delete"


def test_a_node_that_opens_again_takes_pods():
    """It is not among the first rows with room, which quick reject looks at."""
    others = [worker(name) for name in ("b", "c", "d", "e")]
    simulation = simulated(worker("a", pod("one", "1", on="a")), *others)
    for each in others:
        follow(simulation, each, closed=True)
    assert kind(simulation, "a") == "stay"
    follow(simulation, others[-1])
    assert kind(simulation, "a") == "delete"


def test_a_pod_that_terminates_no_longer_keeps_others_away():
    a = worker("a", pod("shy", "1", on="a", metadata=WEB, spec=APART))
    others = [worker(name, pod(f"web-{name}", "1", on=name, metadata=WEB)) for name in ("b", "c", "d", "e")]
    ending = pod("web-e", "1", on="e", metadata={**WEB, "deletionTimestamp": "2026-01-05T12:00:00Z"})
    simulation = simulated(a, *others)
    assert kind(simulation, "a") == "stay"
    follow(simulation, worker("e", ending))
    assert kind(simulation, "a") == "delete"


def test_a_host_port_that_is_free_again_takes_a_pod_though_a_larger_pod_came():
    """Three other nodes have room and use the port, so that quick reject does not look at the last one."""
    meta = {"deletionTimestamp": "2026-01-05T12:00:00Z"}
    crowded = [worker(name, pod(f"port-{name}", "100m", on=name, spec=port(80))) for name in ("b", "c", "d")]
    ending = pod("ending", "100m", on="e", metadata=meta, spec=port(80))
    first = worker("a", pod("one", "1", on="a", spec=port(80)), pod("plain", "1", on="a"))
    simulation = simulated(first, *crowded, worker("e", ending))
    assert kind(simulation, "a") == "stay"
    follow(simulation, worker("e", pod("larger", "2", on="e")))
    assert kind(simulation, "a") == "delete"


def test_the_limits_that_block_a_removal_are_named_again_when_another_node_fills_up():
    """Without its limit the pool could launch a node for one pod; the others have to fit elsewhere."""
    pods = [pod("large", "3500m", on="a"), *(pod(f"small-{n}", "600m", on="a") for n in range(4))]
    others = [sold_worker(name, pod(f"fill-{name}", "3400m", on=name)) for name in ("b", "c", "d", "e")]
    full = sold_worker("a", *pods, type_="m.huge")
    types = (LARGE, instance_type("m.huge", "16", "64Gi", 1.5))
    limited = free(template=ON_DEMAND, limits={"cpu": "18"})
    case = cluster(full, *others, pools=[limited], types=types)
    filled = sold_worker("e", *others[-1].pods, pod("more", "600m", on="e"))

    def limits(simulation):
        return simulation.remove(simulation.row("a")).limits

    simulation = RemovalSimulation(case, [limited])
    assert limits(simulation)
    follow(simulation, filled)
    after = replace(case, nodes=(*case.nodes[:-1], filled))
    assert limits(simulation) == limits(RemovalSimulation(after, [limited])) == ""


def sold(name, price, **fields):
    return replace(instance_type(name, "4", "16Gi", price), **fields)


def test_catalogs_that_differ_in_prices_alone():
    before, after = {"default": (SMALL, sold("m.large", 1.0))}, {"default": (SMALL, sold("m.large", 2.0))}
    assert sorted(set(catalog_changes(before, after))) == [(0.4, 0.8), (1.0, 2.0)]
    assert catalog_changes(before, {**before}) == []
    assert catalog_changes(before, {}) is None
    assert catalog_changes(before, {"default": (SMALL,)}) is None


def test_catalogs_that_differ_in_more_than_prices():
    large = sold("m.large", 1.0)
    dearer = sold("m.large", 1.5)
    sold_out = replace(dearer, offerings=tuple(replace(each, available=False) for each in dearer.offerings))
    assert price_changes((large,), (sold_out,)) is None
    assert price_changes((large,), (replace(dearer, capacity=SMALL.capacity),)) is None
    assert price_changes((large,), (replace(dearer, offerings=dearer.offerings[1:]),)) is None
    assert price_changes((large,), (replace(large, overhead=SMALL.capacity),)) is None


def test_a_catalog_at_other_prices_takes_over_only_types_that_are_the_same():
    before, running = CatalogTable((SMALL, LARGE)), RunningDaemons({}, ())
    known = [before.candidate(index, running) for index in range(2)]
    dearer = sold("m.large", 1.5)
    after = CatalogTable((SMALL, dearer), before)
    assert after.candidate(0, running) is known[0]
    assert after.candidate(1, running).type is dearer
