"""The Cluster port over HTTP: its requests, and the results of responses."""

import asyncio
from datetime import UTC, datetime

import pytest

from builders import pod
from dovetail.kube.transport import TransportLimits
from dovetail.model.cluster_objects import Lease, LeaseSpec
from dovetail.model.kinds import LEASE, NODE, NODE_CLAIM, POD
from dovetail.model.kube_object import Key, ObjectMeta
from dovetail.ports.cluster import Deletion, ListOptions, Patch
from dovetail.ports.errors import Gone, Invalid, OutcomeUnknown, Unavailable
from kube.stub import refusal, reply, serving

WEB = Key("default", "web")


def plain_pod(name, **spec):
    return {"metadata": {"name": name, "namespace": "default", "resourceVersion": "7"}, "spec": spec}


def page(*items, version="10", token=""):
    return reply({"metadata": {"resourceVersion": version, "continue": token}, "items": list(items)})


def ask(work, *answers, **how):
    async def main():
        async with serving(*answers, **how) as (cluster, stub):
            return await work(cluster), stub.seen

    return asyncio.run(main())


def test_pages_of_a_list_become_one_listing():
    listing, seen = ask(
        lambda cluster: cluster.list(POD),
        page(plain_pod("a"), plain_pod("b"), token="next"),
        page(plain_pod("c")),
    )
    assert [item.name for item in listing.items] == ["a", "b", "c"]
    assert listing.resource_version == "10"
    assert [request.query for request in seen] == [{"limit": "500"}, {"limit": "500", "continue": "next"}]


def test_a_page_that_expired_gives_way_to_one_whole_list():
    listing, seen = ask(
        lambda cluster: cluster.list(POD),
        page(plain_pod("a"), token="next"),
        refusal(410, "Expired", "the continue token is too old"),
        page(plain_pod("b"), version="20"),
    )
    assert [item.name for item in listing.items] == ["b"]
    assert listing.resource_version == "20"
    assert seen[-1].query == {}


def test_a_whole_list_that_expires_too_is_reported():
    with pytest.raises(Gone):
        ask(lambda cluster: cluster.list(POD), page(plain_pod("a"), token="next"), refusal(410, "Expired"))


def test_one_unreadable_object_does_not_lose_the_list():
    listing, _ = ask(
        lambda cluster: cluster.list(POD),
        page(plain_pod("good"), plain_pod("bad", containers=[{"resources": {"requests": {"cpu": "lots"}}}])),
    )
    assert [item.name for item in listing.items] == ["good"]
    (bad,) = listing.unreadable
    assert bad.key == Key("default", "bad")
    assert "lots" in str(bad.faults[0])


def test_an_empty_list_may_come_as_null():
    listing, _ = ask(lambda cluster: cluster.list(NODE), reply({"metadata": {"resourceVersion": "3"}, "items": None}))
    assert listing.items == ()


def test_a_list_cut_short_is_unavailable():
    with pytest.raises(Unavailable):
        ask(lambda cluster: cluster.list(POD), reply('{"metadata":{"resourceVersion":"3"},"items":[{"meta'))


def test_options_become_path_and_query():
    options = ListOptions(namespace="team a", label_selector="a in (b,c)", field_selector="spec.nodeName=n")
    _, (seen,) = ask(lambda cluster: cluster.list(POD, options), page())
    assert seen.path == "/api/v1/namespaces/team a/pods"
    assert seen.query["labelSelector"] == "a in (b,c)"
    assert seen.query["fieldSelector"] == "spec.nodeName=n"
    assert seen.headers["Accept-Encoding"] == "gzip"
    assert seen.headers["User-Agent"].startswith("dovetail/")


def test_cluster_scoped_kinds_of_a_group_have_no_namespace_in_their_path():
    _, (seen,) = ask(lambda cluster: cluster.get(NODE_CLAIM, Key("", "x/y")), reply({"metadata": {"name": "x"}}))
    assert seen.path == "/apis/karpenter.sh/v1/nodeclaims/x/y"


def test_an_object_without_a_name_is_never_requested():
    with pytest.raises(ValueError, match="without a name"):
        ask(lambda cluster: cluster.delete(NODE, Key("", "")), reply())


def test_an_unreadable_object_is_invalid_with_its_faults():
    with pytest.raises(Invalid) as caught:
        ask(lambda cluster: cluster.get(POD, WEB), reply(plain_pod("web", priority="high")))
    assert caught.value.faults[0].path == "spec.priority"


def test_a_write_with_an_undecodable_response_has_an_unknown_outcome():
    with pytest.raises(OutcomeUnknown, match="succeeded, but"):
        ask(lambda cluster: cluster.patch(POD, WEB, Patch({})), reply(plain_pod("web", priority="high")))


def test_create_posts_the_whole_object_and_returns_what_the_server_made():
    made, (seen,) = ask(lambda cluster: cluster.create(POD, pod("web")), reply(plain_pod("web", nodeName="n1")))
    assert (seen.method, seen.path) == ("POST", "/api/v1/namespaces/default/pods")
    assert (seen.body["apiVersion"], seen.body["kind"], seen.body["metadata"]["name"]) == ("v1", "Pod", "web")
    assert made.node_name == "n1"


def test_a_patch_carries_the_resource_version_it_holds_for():
    patch = Patch({"metadata": {"labels": {"a": None}}}, resource_version="42", subresource="status")
    _, (seen,) = ask(lambda cluster: cluster.patch(POD, WEB, patch), reply(plain_pod("web")))
    assert (seen.method, seen.path) == ("PATCH", "/api/v1/namespaces/default/pods/web/status")
    assert seen.headers["Content-Type"] == "application/merge-patch+json"
    assert seen.body == {"metadata": {"labels": {"a": None}, "resourceVersion": "42"}}


def test_a_patch_without_a_resource_version_holds_for_any():
    _, (seen,) = ask(lambda cluster: cluster.patch(POD, WEB, Patch({"spec": {}})), reply(plain_pod("web")))
    assert seen.body == {"spec": {}}


def test_delete_sends_the_uid_and_the_grace_period():
    _, (seen,) = ask(lambda cluster: cluster.delete(POD, WEB, Deletion(uid="u1", grace_seconds=0)), reply())
    assert seen.method == "DELETE"
    assert seen.body["preconditions"] == {"uid": "u1"}
    assert seen.body["gracePeriodSeconds"] == 0


def test_a_plain_delete_has_no_conditions():
    _, (seen,) = ask(lambda cluster: cluster.delete(POD, WEB), reply())
    assert set(seen.body) == {"apiVersion", "kind"}


def test_evict_names_this_very_pod():
    _, (seen,) = ask(lambda cluster: cluster.evict(pod("web")), reply(status=201))
    assert (seen.method, seen.path) == ("POST", "/api/v1/namespaces/default/pods/web/eviction")
    assert (seen.body["apiVersion"], seen.body["kind"]) == ("policy/v1", "Eviction")
    assert seen.body["deleteOptions"] == {"preconditions": {"uid": "uid-web"}}


@pytest.mark.parametrize(
    ("microsecond", "spelled"), [(0, "2026-01-05T12:00:00.000000Z"), (5, "2026-01-05T12:00:00.000005Z")]
)
def test_instants_of_a_lease_always_have_six_digits(microsecond, spelled):
    """The API server accepts no other format of a MicroTime."""
    at = datetime(2026, 1, 5, 12, 0, 0, microsecond, tzinfo=UTC)
    lease = Lease(metadata=ObjectMeta(name="leader", namespace="kube-system"), spec=LeaseSpec(renew_time=at))
    _, (created,) = ask(lambda cluster: cluster.create(LEASE, lease), reply({}))
    _, (patched,) = ask(
        lambda cluster: cluster.patch(LEASE, lease.key, Patch({"spec": {"renewTime": at, "acquireTime": None}})),
        reply({}),
    )
    assert created.body["spec"]["renewTime"] == spelled
    assert patched.body["spec"] == {"renewTime": spelled, "acquireTime": None}


def test_pods_with_equal_parts_share_them_and_keep_their_own():
    equivalent = {
        "tolerations": [{"key": "a"}],
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1000m"}}}],
    }
    other = {"tolerations": [{"key": "b"}], "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
    listing, _ = ask(
        lambda cluster: cluster.list(POD),
        page(plain_pod("a", **equivalent), plain_pod("b", **equivalent), plain_pod("c", **other)),
    )
    a, b, c = listing.items
    assert a.spec.containers is b.spec.containers
    assert a.spec.tolerations is b.spec.tolerations
    assert (a.name, b.name) == ("a", "b")
    assert c.spec.tolerations[0].key == "b"
    assert str(c.spec.containers[0].resources.requests["cpu"]) == "1"


def test_leases_do_not_wait_for_their_turn():
    """A leader whose renewals are rate limited would lose its lease."""

    async def main():
        limits = TransportLimits(qps=0.001, burst=1, deadline=5)
        async with serving(reply({"metadata": {"resourceVersion": "1"}}), limits=limits) as (cluster, stub):
            await cluster.list(NODE)
            for _ in range(3):
                await cluster.patch(LEASE, Key("kube-system", "leader"), Patch({"spec": {}}))
            return len(stub.seen)

    assert asyncio.run(main()) == 4


@pytest.mark.parametrize(("minor", "version"), [("33", "1.33"), ("31+", "1.31")])
def test_the_version_of_the_server_has_no_suffix(minor, version):
    found, [request] = ask(lambda cluster: cluster.server_version(), reply({"major": "1", "minor": minor}))
    assert (found, request.path) == (version, "/version")


def test_an_answer_that_is_no_version_is_an_error():
    with pytest.raises(Unavailable, match="not a version"):
        ask(lambda cluster: cluster.server_version(), reply({"kind": "Status"}))
