"""Error responses, deadlines, broken connections and credentials, over real sockets."""

import asyncio
import gc
import gzip
import json
import socket
import ssl
import threading

import pytest
from aiohttp import web

from builders import pod
from dovetail.kube.credentials import StaticCredentialSource, bearer
from dovetail.kube.endpoint import AccessFault, Endpoint, Pem
from dovetail.kube.transport import TransportLimits
from dovetail.model.kinds import NODE, POD
from dovetail.model.kube_object import Fault, Key
from dovetail.observe.metrics import PrometheusMetrics
from dovetail.ports.cluster import Patch
from dovetail.ports.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Denied,
    EvictionBlocked,
    EvictionImpossible,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    OutcomeUnknown,
    Throttled,
    Unavailable,
)
from e2e.controlplane.certificates import Authority
from kube.stub import Clock, client, drop, hang, refusal, reply, served, serving

N1 = Key("", "n1")


def read(cluster):
    return cluster.get(NODE, N1)


def write(cluster):
    return cluster.patch(NODE, N1, Patch({"spec": {}}))


def evict(cluster):
    return cluster.evict(pod("web"))


def failure(work, *answers, **how):
    async def main():
        async with serving(*answers, **how) as (cluster, _):
            try:
                await work(cluster)
            except ApiError as error:
                return error
        raise AssertionError("it went well")

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", Invalid),
        (401, "Unauthorized", Denied),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (405, "MethodNotAllowed", ApiError),
        (409, "AlreadyExists", AlreadyExists),
        (409, "Conflict", Conflict),
        (410, "Expired", Gone),
        (413, "RequestEntityTooLarge", Invalid),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", Throttled),
        (500, "InternalError", Unavailable),
        (503, "ServiceUnavailable", Unavailable),
    ],
)
@pytest.mark.parametrize("work", [read, write])
def test_an_error_follows_from_code_and_reason(work, code, reason, kind):
    error = failure(work, refusal(code, reason, "because"))
    assert type(error) is kind
    assert "because" in str(error)
    assert "/api/v1/nodes/n1" in str(error)


@pytest.mark.parametrize(
    ("code", "message"), [(502, "bad gateway"), (504, "timeout"), (500, "etcdserver: request timed out")]
)
def test_where_the_server_itself_gave_up_a_write_is_of_unknown_outcome(code, message):
    assert type(failure(write, refusal(code, message=message))) is OutcomeUnknown
    assert type(failure(read, refusal(code, message=message))) is Unavailable


def test_the_body_of_a_proxy_response_is_the_message():
    error = failure(read, reply("<html>upstream is on fire</html>", 503))
    assert type(error) is Unavailable
    assert "upstream is on fire" in str(error)


def test_a_redirect_is_not_followed():
    assert type(failure(read, reply(status=302, headers={"Location": "http://127.0.0.1:1/"}))) is ApiError


def test_every_cause_of_an_invalid_object_is_a_fault():
    causes = [{"field": "spec.a", "message": "Required value"}, {"field": "spec.b", "message": "too long"}]
    error = failure(write, refusal(422, "Invalid", "two faults", causes=causes))
    assert error.faults == (Fault("spec.a", "Required value"), Fault("spec.b", "too long"))


@pytest.mark.parametrize(
    ("details", "wait"), [({"headers": {"Retry-After": "7"}}, 7.0), ({"retryAfterSeconds": 3}, 3.0), ({}, None)]
)
def test_throttling_has_the_retry_after_of_the_server(details, wait):
    assert failure(read, refusal(429, "TooManyRequests", **details)).retry_after == wait


@pytest.mark.parametrize("headers", [{}, {"Retry-After": "10"}])
def test_an_eviction_a_budget_forbids_is_blocked_whether_or_not_the_budget_was_seen_yet(headers):
    causes = [{"reason": "DisruptionBudget", "message": "The disruption budget web needs 2 healthy pods"}]
    error = failure(evict, refusal(429, "TooManyRequests", "Cannot evict", causes=causes, headers=headers))
    assert type(error) is EvictionBlocked
    assert "needs 2 healthy pods" in str(error)


def test_an_eviction_the_server_is_too_busy_for_is_throttled():
    assert type(failure(evict, refusal(429, "TooManyRequests", headers={"Retry-After": "1"}))) is Throttled


def test_an_eviction_under_two_budgets_is_impossible():
    message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    assert type(failure(evict, refusal(500, "InternalError", message))) is EvictionImpossible
    assert type(failure(write, refusal(500, "InternalError", message))) is Unavailable


def test_a_read_that_hangs_is_unavailable_at_its_deadline():
    assert type(failure(read, hang, limits=TransportLimits(deadline=0.05))) is Unavailable


def test_a_list_that_hangs_is_unavailable_at_its_deadline():
    assert (
        type(failure(lambda cluster: cluster.list(NODE), hang, limits=TransportLimits(bulk_deadline=0.05)))
        is Unavailable
    )


@pytest.mark.parametrize("work", [write, evict, lambda cluster: cluster.delete(NODE, N1)])
def test_a_write_that_hangs_is_of_unknown_outcome_at_its_deadline(work):
    assert type(failure(work, hang, limits=TransportLimits(deadline=0.05))) is OutcomeUnknown


def test_a_write_whose_turn_never_came_was_not_made():
    async def main():
        async with serving(reply({}), limits=TransportLimits(qps=0.001, burst=1, deadline=0.05)) as (cluster, stub):
            await read(cluster)
            with pytest.raises(Unavailable):
                await write(cluster)
            return len(stub.seen)

    assert asyncio.run(main()) == 1


def test_a_write_that_found_no_room_among_those_under_way_was_not_made():
    async def main():
        async with serving(hang, limits=TransportLimits(in_flight=1, deadline=0.05)) as (cluster, stub):
            outcomes = await asyncio.gather(write(cluster), write(cluster), return_exceptions=True)
            return [type(outcome) for outcome in outcomes], len(stub.seen)

    assert asyncio.run(main()) == ([OutcomeUnknown, Unavailable], 1)


def test_a_connection_dropped_after_a_write_leaves_its_outcome_unknown():
    assert type(failure(write, drop)) is OutcomeUnknown
    assert type(failure(read, drop)) is Unavailable


def test_a_connection_refused_is_unavailable_even_for_a_write():
    async def main():
        async with served(reply()) as stub:
            pass
        async with client(Endpoint(server=stub.url)) as cluster:
            await write(cluster)

    with pytest.raises(Unavailable, match="cannot connect"):
        asyncio.run(main())


def test_a_caller_may_give_up_earlier():
    async def main():
        async with serving(hang) as (cluster, _):
            async with asyncio.timeout(0.05):
                await read(cluster)

    with pytest.raises(TimeoutError):
        asyncio.run(main())


def authorizations(seen):
    return [request.headers.get("Authorization") for request in seen]


def test_a_token_file_replaced_meanwhile_is_read_again_after_a_refusal(tmp_path):
    token = tmp_path / "token"
    token.write_text("old\n")

    async def main():
        answers = reply({}), refusal(401, "Unauthorized"), reply({})
        async with serving(*answers, source=StaticCredentialSource(token_file=token)) as (cluster, stub):
            await write(cluster)
            token.write_text("new\n")
            await write(cluster)
            return authorizations(stub.seen)

    assert asyncio.run(main()) == ["Bearer old", "Bearer old", "Bearer new"]


def test_a_credential_that_cannot_get_better_is_not_tried_twice():
    async def main():
        source = StaticCredentialSource(headers=bearer("t"))
        async with serving(refusal(401, "Unauthorized"), source=source) as (cluster, stub):
            with pytest.raises(Denied):
                await read(cluster)
            return authorizations(stub.seen)

    assert asyncio.run(main()) == ["Bearer t"]


def test_a_token_file_is_read_again_every_minute(tmp_path):
    token, clock = tmp_path / "token", Clock()
    token.write_text("old")

    async def main():
        async with serving(reply({}), source=StaticCredentialSource(token_file=token), clock=clock) as (cluster, stub):
            await read(cluster)
            token.write_text("new")
            clock.at = clock.at.replace(second=59)
            await read(cluster)
            clock.at = clock.at.replace(minute=1, second=0)
            await read(cluster)
            token.unlink()
            clock.at = clock.at.replace(minute=5)
            await read(cluster)
            return authorizations(stub.seen)

    assert asyncio.run(main()) == ["Bearer old", "Bearer old", "Bearer new", "Bearer new"]


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


def server_context(authority, *hosts):
    pair = authority.issue_server("server", list(hosts))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.file))
    context.load_cert_chain(pair.certificate, pair.key)
    return context


def over_tls(context, source=None, **endpoint):
    async def main():
        async with (
            served(reply({"metadata": {"name": "n1"}}), tls=context) as stub,
            client(Endpoint(server=stub.url, **endpoint), source) as cluster,
        ):
            return (await read(cluster)).name

    return asyncio.run(main())


def test_the_server_must_be_signed_by_the_authority_given(authority):
    context = server_context(authority)
    assert over_tls(context, ca=Pem(file=authority.file)) == "n1"
    with pytest.raises(Unavailable, match="its certificate is not trusted: self-signed"):
        over_tls(context)


def test_a_server_name_other_than_the_host_can_be_expected(authority):
    context = server_context(authority, "kube.example")
    assert over_tls(context, ca=Pem(file=authority.file), tls_server_name="kube.example") == "n1"
    with pytest.raises(Unavailable, match=r"other\.example"):
        over_tls(context, ca=Pem(file=authority.file), tls_server_name="other.example")


def test_verification_can_be_switched_off(authority):
    assert over_tls(server_context(authority), insecure=True) == "n1"


def test_an_empty_authority_does_not_mean_that_of_the_system(authority):
    with pytest.raises(AccessFault, match="is empty"):
        over_tls(server_context(authority), ca=Pem(data=b" \n"))


def test_a_client_certificate_is_shown(authority):
    context = server_context(authority)
    context.verify_mode = ssl.CERT_REQUIRED
    pair = authority.issue_client("me", "admins")
    source = StaticCredentialSource(certificate=Pem(file=pair.certificate), key=Pem(file=pair.key))
    assert over_tls(context, source, ca=Pem(file=authority.file)) == "n1"
    with pytest.raises(Unavailable):
        over_tls(context, None, ca=Pem(file=authority.file))


def deaf_server(context, listener, over):
    """Responds once with an empty list and never reads again, so it does not complete the TLS shutdown."""
    accepted, _ = listener.accept()
    with context.wrap_socket(accepted, server_side=True) as connection:
        while b"\r\n\r\n" not in connection.recv(65536):
            pass
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n")
        over.wait(10)


def test_a_connection_without_tls_shutdown_is_closed_with_the_client(authority, recwarn):
    context, over = server_context(authority), threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=deaf_server, args=(context, listener, over))
        server.start()
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"

        async def main():
            async with client(
                Endpoint(server=url, ca=Pem(file=authority.file)), limits=TransportLimits(bulk_deadline=0.2)
            ) as it:
                with pytest.raises(Unavailable):
                    await it.list(NODE)

        asyncio.run(main())
        over.set()
        server.join()
    gc.collect()
    assert not [str(each.message) for each in recwarn if issubclass(each.category, ResourceWarning)]


def test_pods_are_listed_compressed():
    data = json.dumps({"metadata": {"resourceVersion": "1"}, "items": [{"metadata": {"name": "a"}}]}).encode()

    async def compressed(request):
        assert request.headers["Accept-Encoding"] == "gzip"
        return web.Response(body=gzip.compress(data), headers={"Content-Encoding": "gzip"})

    async def main():
        async with serving(compressed) as (cluster, _):
            return (await cluster.list(POD)).items[0].name

    assert asyncio.run(main()) == "a"


def test_an_unreachable_server_is_reported_in_plain_words():
    async def ask():
        async with client(Endpoint(server="https://127.0.0.1:1")) as cluster:
            await cluster.get(NODE, Key("", "n1"))

    with pytest.raises(Unavailable) as caught:
        asyncio.run(ask())
    assert "Connect call failed ('127.0.0.1', 1); is the API server running, and is this its address?" in str(
        caught.value
    )
    assert "SSLContext" not in str(caught.value)


def test_requests_are_counted_by_status_and_timed_by_what_they_ask_for():
    async def main():
        async with serving(refusal(404, "NotFound"), refusal(404, "NotFound")) as (cluster, _):
            metrics = PrometheusMetrics(strict=True)
            cluster.report_to(metrics)
            with pytest.raises(NotFound):
                await read(cluster)
            with pytest.raises(NotFound):
                await cluster.patch(NODE, N1, Patch({}, subresource="status"))
            return metrics.render().decode()

    text = asyncio.run(main())
    assert 'client_go_request_total{code="404",method="GET"} 1.0' in text
    assert 'client_go_request_total{code="404",method="PATCH"} 1.0' in text
    for subresource, verb in (("", "GET"), ("status", "PATCH")):
        asked = f'verb="{verb}",group="",version="v1",kind="Node",subresource="{subresource}"'
        series = [line for line in text.splitlines() if line.startswith("client_go_request_duration_seconds_count")]
        assert any(set(asked.split(",")) == set(line[line.index("{") + 1 : -5].split(",")) for line in series)
