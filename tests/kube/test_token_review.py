"""Token reviews: the user and the missing permissions; without a response, nothing is permitted."""

import asyncio

import pytest

from dovetail.kube.cluster_access import ClusterAccess
from dovetail.kube.credentials import StaticCredentialSource
from dovetail.kube.endpoint import Endpoint
from dovetail.kube.token_review import open_reviewer
from dovetail.ports.errors import ApiError, Denied, Unavailable
from dovetail.ports.token_review import TokenIdentity
from kube.stub import Clock, drop, refusal, reply, served

TOKEN = "a-token-of-somebody"
DANA = {"username": "dana", "uid": "7", "groups": ["platform", "system:authenticated"], "extra": {"team": ["a", "b"]}}
KNOWN = reply({"status": {"authenticated": True, "user": DANA}}, 201)
YES, NO = reply({"status": {"allowed": True}}, 201), reply({"status": {"allowed": False}}, 201)


def review(*answers):
    async def main():
        async with served(*answers) as stub:
            asking = await open_reviewer(
                ClusterAccess(Endpoint(server=stub.url), StaticCredentialSource(), "test"), Clock()
            )
            try:
                return await asking.review(TOKEN), stub.seen
            finally:
                await asking.aclose()

    return asyncio.run(main())


def test_a_user_who_may_list_nodes_and_pods_lacks_nothing():
    standing, seen = review(KNOWN, YES)
    assert standing == TokenIdentity("dana")
    first, *questions = seen
    assert (first.method, first.path) == ("POST", "/apis/authentication.k8s.io/v1/tokenreviews")
    assert first.body["spec"] == {"token": TOKEN}
    assert [one.path for one in questions] == ["/apis/authorization.k8s.io/v1/subjectaccessreviews"] * 2
    assert {one.body["spec"]["resourceAttributes"]["resource"] for one in questions} == {"nodes", "pods"}
    for one in questions:
        spec = one.body["spec"]
        assert (spec["user"], spec["uid"], spec["groups"], spec["extra"]) == (
            "dana",
            "7",
            ["platform", "system:authenticated"],
            {"team": ["a", "b"]},
        )
        assert spec["resourceAttributes"]["verb"] == "list"
        assert "namespace" not in spec["resourceAttributes"]
        assert TOKEN not in str(one)


def test_missing_permissions_are_named():
    assert review(KNOWN, NO)[0] == TokenIdentity("dana", ("list nodes", "list pods"))


@pytest.mark.parametrize(
    "status",
    [
        {"authenticated": False},
        {},
        {"error": "expired"},
        {"authenticated": True},
        {"authenticated": True, "user": {"username": ""}},
        {"authenticated": False, "user": DANA},
    ],
)
def test_a_review_without_a_user_name_is_unauthenticated(status):
    standing, seen = review(reply({"status": status}, 201))
    assert not standing.known
    assert len(seen) == 1


def test_a_denial_outweighs_a_yes():
    both = reply({"status": {"allowed": True, "denied": True}}, 201)
    assert review(KNOWN, both)[0].lacks == ("list nodes", "list pods")


@pytest.mark.parametrize(
    ("answers", "error"),
    [
        ((refusal(403, "Forbidden", "may not create tokenreviews"),), Denied),
        ((refusal(500, "InternalError", "no"),), ApiError),
        ((reply("nonsense"),), Unavailable),
        ((reply({"kind": "Status"}),), Unavailable),
        ((reply({"status": {"authenticated": "yes"}}),), Unavailable),
        ((KNOWN, reply({"status": {"allowed": "true"}})), Unavailable),
        ((drop,), ApiError),
        ((KNOWN, drop), ApiError),
    ],
)
def test_a_missing_response_is_an_error_without_the_token(answers, error):
    with pytest.raises(error) as raised:
        review(*answers)
    assert TOKEN not in str(raised.value)
