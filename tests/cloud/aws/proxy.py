"""An HTTP proxy in front of moto that does what moto cannot: check permissions, throttle, sell prices, and more.

It reads which operation a request is for, whatever protocol it comes in, counts it, and then answers itself or passes
the request on. Questions about all instance types are narrowed to a few unless told otherwise, because moto takes
seconds to answer them.
"""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode

import aiohttp
from aiohttp import web

from cloud.aws.fleets import Fleets
from cloud.aws.fleets import reply as fleet_reply
from cloud.aws.iam_checks import Call, IamGuard, nested

NARROW = ("a1.large", "c5.xlarge", "g5.xlarge", "m5.large", "m5.xlarge", "m5.2xlarge", "m6g.large", "p4d.24xlarge")
"""The instance types of a scenario, unless it requests all."""
_BY_TYPE = {"DescribeInstanceTypes", "DescribeSpotPriceHistory"}
_BY_FILTER = {"DescribeInstanceTypeOfferings"}
_IN_TURN = {"SendMessage", "SendMessageBatch", "DeleteMessageBatch"}  # moto loses what is sent while it deletes
_HOP_BY_HOP = {"transfer-encoding", "connection", "content-length", "content-encoding", "keep-alive"}
OWNER = "owner"
"""The access key of the owner of the account, who may do everything."""
_CREDENTIAL = re.compile(r"Credential=([^/]*)/[^/]*/([^/]*)/([^/]*)/")
_REST = (("/clusters/", "DescribeCluster", "name"), ("/managedresources/", "GetManagedResource", "resourceIdentifier"))
"""Path, operation and parameter of requests that name their operation by their path."""
_TAG = re.compile(r"<key>([^<]*)</key>.*?<value>([^<]*)</value>", re.DOTALL)
EC2_XMLNS = "http://ec2.amazonaws.com/doc/2016-11-15/"


@dataclass
class Asked:
    """A request: the operation and its parameters."""

    operation: str
    given: dict[str, Any]
    body: bytes
    caller: str = ""
    region: str = ""
    service: str = ""

    @property
    def call(self) -> Call:
        """The request as IAM sees it."""
        for path, operation, parameter in _REST:
            if path in self.operation:
                name = unquote(self.operation.partition(path)[2])
                return Call(self.service, self.region, operation, {parameter: name})
        return Call(self.service, self.region, self.operation, nested(self.given))


Reply = web.Response | None
"""None: pass the request on."""
Rule = Callable[[Asked], Reply]


@dataclass
class Proxy:
    """The rules of the proxy, and the requests it received."""

    upstream: str
    address: str = ""
    calls: Counter[str] = field(default_factory=Counter)
    asked: list[Asked] = field(default_factory=list)
    lost: Counter[str] = field(default_factory=Counter)
    """Number of responses that did not come from moto."""
    parameters: dict[str, str] = field(default_factory=dict)
    """SSM parameters by name, before those moto has."""
    architectures: dict[str, str] = field(default_factory=dict)
    """Architectures of images, which moto does not store."""
    narrow: tuple[str, ...] = NARROW
    """The instance types to offer; empty for all that moto has."""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    launching: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Serializes launches: moto does not support concurrent ones."""
    rules: dict[str, list[Rule]] = field(default_factory=dict)
    fleets: Fleets = field(default_factory=Fleets)
    guard: IamGuard | None = None
    """Checks the permissions of everyone but the owner."""

    def on(self, operation: str, rule: Rule) -> None:
        """Apply `rule` to every request for the operation; the latest rule comes first."""
        self.rules.setdefault(operation, []).insert(0, rule)

    def refuse(self, operation: str, code: str, *, status: int = 400, times: int | None = None) -> None:
        """Fail the operation with an AWS error code, `times` times or always."""
        left = [times]

        def rule(_asked: Asked) -> Reply:
            if left[0] == 0:
                return None
            left[0] = None if left[0] is None else left[0] - 1
            return ec2_error(code, status)

        self.on(operation, rule)

    def refuse_all(self, code: str) -> None:
        """Fail every request, in the protocol of its service."""
        self.on("*", lambda asked: error_reply(asked.service, code, f"{code}, says the proxy"))

    def heal(self) -> None:
        """Remove every rule."""
        self.rules.clear()

    def sells(self, prices: dict[str, float]) -> None:
        """Let the pricing API return these prices per hour."""
        self.on("GetProducts", lambda _asked: json_reply({"PriceList": [product(*each) for each in prices.items()]}))

    def reserves(self, *reservations: dict[str, Any]) -> None:
        """Let DescribeCapacityReservations return these, whatever the request."""
        always = {"ownerId": "123456789012", "instanceMatchCriteria": "targeted"}
        items = "".join(f"<item>{_xml(always | each)}</item>" for each in reservations)
        body = f"<capacityReservationSet>{items}</capacityReservationSet>"
        self.on("DescribeCapacityReservations", lambda _asked: ec2_reply("DescribeCapacityReservations", body))

    def answer(self, asked: Asked) -> Reply:
        """The response of the rules, the latest first; None passes the request on."""
        for rule in (*self.rules.get("*", ()), *self.rules.get(asked.operation, ())):
            reply = rule(asked)
            if reply is not None:
                return reply
        if asked.operation == "GetParameter" and self.parameters:
            return self._parameter(asked.given["Name"])
        return None

    def narrowed(self, asked: Asked) -> bytes:
        """The request, limited to the instance types of the scenario."""
        if not self.narrow or "NextToken" in asked.given:
            return asked.body
        if asked.operation in _BY_TYPE:
            return asked.body + "".join(f"&InstanceType.{n}={t}" for n, t in enumerate(self.narrow, 1)).encode()
        if asked.operation in _BY_FILTER:
            values = "".join(f"&Filter.1.Value.{n}={t}" for n, t in enumerate(self.narrow, 1))
            return asked.body + f"&Filter.1.Name=instance-type{values}".encode()
        return asked.body

    def amend(self, operation: str, content: bytes) -> bytes:
        """The response of moto, completed with what it leaves out."""
        if operation == "DescribeImages":
            for image, architecture in self.architectures.items():
                told = f"<imageId>{image}</imageId>".encode()
                content = content.replace(told, told + f"<architecture>{architecture}</architecture>".encode())
        if operation == "DescribeInstances":
            return self.fleets.amend(content)
        return content

    def _parameter(self, name: str) -> web.Response:
        if name not in self.parameters:
            return json_reply({"__type": "ParameterNotFound"}, 400)
        return json_reply({"Parameter": {"Name": name, "Value": self.parameters[name], "Type": "String"}})


def ec2_error(code: str, status: int = 400) -> web.Response:
    """An error in EC2's protocol."""
    said = f"<Error><Code>{code}</Code><Message>{code}, says the proxy</Message></Error>"
    text = f"<Response><Errors>{said}</Errors><RequestID>proxy</RequestID></Response>"
    return web.Response(status=status, text=text, content_type="text/xml")


def ec2_reply(operation: str, body: str) -> web.Response:
    """A response in EC2's protocol."""
    text = f'<{operation}Response xmlns="{EC2_XMLNS}"><requestId>proxy</requestId>{body}</{operation}Response>'
    return web.Response(text=text, content_type="text/xml")


def denial(service: str, problems: list[str]) -> web.Response:
    """The response to a request that a policy does not allow, in the protocol of the service."""
    code = {"ec2": "UnauthorizedOperation", "iam": "AccessDenied"}.get(service, "AccessDeniedException")
    return error_reply(service, code, problems[0])


def error_reply(service: str, code: str, message: str) -> web.Response:
    """An error in the protocol of the service."""
    if service == "ec2":
        return ec2_error(code, 403)
    if service == "iam":
        said = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
        return web.Response(status=403, text=f"<ErrorResponse>{said}</ErrorResponse>", content_type="text/xml")
    return json_reply({"__type": code, "message": message}, 400)


def json_reply(body: Any, status: int = 200) -> web.Response:
    """A response in the JSON protocols."""
    return web.Response(status=status, body=json.dumps(body).encode(), content_type="application/x-amz-json-1.1")


def product(name: str, price: float) -> str:
    """One entry of the pricing API's list: text that holds JSON."""
    dimensions = {"d": {"pricePerUnit": {"USD": str(price)}}}
    terms = {"OnDemand": {"t": {"priceDimensions": dimensions}}}
    return json.dumps({"product": {"attributes": {"instanceType": name}}, "terms": terms})


def _xml(fields: dict[str, Any]) -> str:
    return "".join(f"<{name}>{value}</{name}>" for name, value in fields.items())


def read_request(request: web.Request, body: bytes) -> Asked:
    """The operation of a request: named in a header (JSON), in the form (query), or by method and path (REST)."""
    target = request.headers.get("X-Amz-Target", "")
    signed = _CREDENTIAL.search(request.headers.get("Authorization", ""))
    signer = signed.groups() if signed else ("", "", "")
    if target:
        return Asked(target.rpartition(".")[2], json.loads(body or b"{}"), body, *signer)
    form = {name: values[0] for name, values in parse_qs(body.decode(errors="replace")).items()}
    if "Action" in form:
        return Asked(form["Action"], form, body, *signer)
    return Asked(f"{request.method} {request.path}", {}, body, *signer)


async def denied(proxy: Proxy, session: aiohttp.ClientSession, asked: Asked) -> list[str]:
    """What the policies deny of a request; remembers what the request creates."""
    if proxy.guard is None:
        return []

    async def find_tags(id_: str) -> dict[str, str] | None:
        form = {"Action": "DescribeTags", "Filter.1.Name": "resource-id", "Filter.1.Value.1": id_}
        signature = f"AWS4-HMAC-SHA256 Credential={OWNER}/20260101/{asked.region}/ec2/aws4_request, Signature=0"
        headers = {"Authorization": signature, "Content-Type": "application/x-www-form-urlencoded"}
        async with session.post(proxy.upstream, data=urlencode(form), headers=headers) as answer:
            return dict(_TAG.findall(await answer.text())) or None

    unsigned = not asked.caller  # for example AssumeRoleWithWebIdentity
    problems = [] if unsigned or asked.caller == OWNER else await proxy.guard.check(asked.call, find_tags)
    if not problems:
        proxy.guard.remember(asked.call)
    return problems


@asynccontextmanager
async def proxied(upstream: str):
    """A proxy in front of `upstream`, on the running loop."""
    proxy = Proxy(upstream)
    async with aiohttp.ClientSession(auto_decompress=False) as session:
        app = web.Application(client_max_size=1 << 26)

        async def handle(request: web.Request) -> web.StreamResponse:
            return await _handle(proxy, session, request)

        app.router.add_route("*", "/{path:.*}", handle)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        proxy.address = f"http://{host}:{port}"
        try:
            yield proxy
        finally:
            await runner.cleanup()


async def _handle(proxy: Proxy, session: aiohttp.ClientSession, request: web.Request) -> web.StreamResponse:
    body = await request.read()
    asked = read_request(request, body)
    proxy.calls[asked.operation] += 1
    proxy.asked.append(asked)
    problems = await denied(proxy, session, asked)
    if problems:
        return denial(asked.service, problems)
    reply = proxy.answer(asked)
    if reply is not None:
        return reply
    body = proxy.narrowed(asked)
    headers = {name: value for name, value in request.headers.items() if name.lower() not in ("host", "content-length")}
    url = f"{proxy.upstream}{request.rel_url}"

    async def forward(body: bytes) -> tuple[int, bytes]:
        async with session.post(url, data=body, headers=headers) as answer:
            return answer.status, await answer.read()

    if asked.operation == "CreateFleet" and asked.given.get("DryRun") != "true":
        async with proxy.launching:
            return fleet_reply(*await proxy.fleets.create(asked.given, body, forward))
    if asked.operation == "CreateLaunchTemplate":
        proxy.fleets.learn(asked.given)
    turn = proxy.turn if asked.operation in _IN_TURN else nullcontext()
    try:
        async with turn, session.request(request.method, url, data=body, headers=headers) as answer:
            content = await answer.read()
            passed = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP_BY_HOP}
            return web.Response(status=answer.status, body=proxy.amend(asked.operation, content), headers=passed)
    except aiohttp.ServerDisconnectedError:  # moto on a machine out of breath; what it did before nobody knows
        proxy.lost[asked.operation] += 1
        return web.Response(status=503)
