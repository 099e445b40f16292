"""EC2's part in fleets that moto does not play: shortages, tokens that answer once, security groups of templates.

Moto takes the first choice whatever it is, knows no tokens, and forgets the groups of a template. Here the first choice
that is not short is passed on to moto; the others are told as errors.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode

from aiohttp import web

Forward = Callable[[bytes], Awaitable[tuple[int, bytes]]]
ICE = "InsufficientInstanceCapacity"
_LAUNCHED = re.compile(
    rb"(<instanceId>(i-[0-9a-f]+)</instanceId>)((?:(?!<instanceId>).)*?)<launchTime>[^<]*</launchTime>", re.DOTALL
)
_OVERRIDE = re.compile(r"(LaunchTemplateConfigs\.(\d+))\.Overrides\.(\d+)\.(\w+)")


@dataclass
class Choice:
    """One override of a fleet."""

    config: str
    number: str
    said: dict[str, str] = field(default_factory=dict)


@dataclass
class Fleets:
    """Simulates CreateFleet. `short` has error codes by instance type, or by type and zone."""

    short: dict[Any, str] = field(default_factory=dict)
    only: str = ""
    """The capacity type with a shortage; empty for all."""
    lose: int = 0
    """How many responses are lost after the fleet was created."""
    launched: list[str] = field(default_factory=list)
    asked: list[list[tuple[str, str]]] = field(default_factory=list)
    answers: dict[str, tuple[bytes, int, bytes]] = field(default_factory=dict)
    groups: dict[str, list[str]] = field(default_factory=dict)
    clock: Any = None
    """The clock for launch times; moto uses the system time."""
    launched_at: dict[str, str] = field(default_factory=dict)
    targets: dict[str, str] = field(default_factory=dict)
    """The target reservations of templates."""
    reserved: dict[str, str] = field(default_factory=dict)
    """The reservations of instances, which moto does not store."""
    tenancies: dict[str, str] = field(default_factory=dict)
    """The tenancies of templates."""
    tenants: dict[str, str] = field(default_factory=dict)
    """The tenancies of instances, which moto does not store."""

    def amend(self, content: bytes) -> bytes:
        """Described instances with launch times of the test clock, reservations and tenancies."""
        for id_, tenancy in self.tenants.items():
            before, told, after = content.partition(f"<instanceId>{id_}</instanceId>".encode())
            said = f"<tenancy>{tenancy}</tenancy>".encode()
            content = before + told + after.replace(b"<tenancy>default</tenancy>", said, 1)
        for id_, reservation in self.reserved.items():
            told = f"<instanceId>{id_}</instanceId>".encode()
            content = content.replace(
                told, told + f"<capacityReservationId>{reservation}</capacityReservationId>".encode()
            )

        def launched(match: re.Match[bytes]) -> bytes:
            told = self.launched_at.get(match[2].decode())
            return (
                match[0] if told is None else match[1] + match[3] + b"<launchTime>" + told.encode() + b"</launchTime>"
            )

        return _LAUNCHED.sub(launched, content) if self.launched_at else content

    def learn(self, given: dict[str, str]) -> None:
        """Store security groups, tenancy and target reservation of a template."""
        self.tenancies[given.get("LaunchTemplateName", "")] = given.get("LaunchTemplateData.Placement.Tenancy", "")
        aim = "LaunchTemplateData.CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId"
        if aim in given:
            self.targets[given["LaunchTemplateName"]] = given[aim]
        named = [value for name, value in given.items() if re.match(r"LaunchTemplateData\.SecurityGroupId\.\d+$", name)]
        self.groups[given.get("LaunchTemplateName", "")] = named

    async def create(self, given: dict[str, str], body: bytes, forward: Forward) -> tuple[int, bytes]:
        """Handle a CreateFleet request."""
        token = given.get("ClientToken", "")
        if token in self.answers:
            words, status, content = self.answers[token]
            return (status, content) if words == body else (400, error("IdempotentParameterMismatch"))
        status, content = await self._launch(given, body, forward)
        if status == 200:
            self.answers[token] = (body, status, content)
        if self.lose > 0:
            self.lose -= 1
            return 503, error("Unavailable")
        return status, content

    async def _launch(self, given: dict[str, str], body: bytes, forward: Forward) -> tuple[int, bytes]:
        choices = choices_of(given)
        self.asked.append([(each.said["InstanceType"], each.said["AvailabilityZone"]) for each in choices])
        way = given.get("TargetCapacitySpecification.DefaultTargetCapacityType", "")
        short = {id(each): code for each in choices if (code := self._code(each, way))}
        left = [each for each in choices if id(each) not in short]
        told = "".join(_told(each, short[id(each)], way) for each in choices if id(each) in short)
        errors = f"<errorSet>{told}</errorSet>"
        if not left:
            return 200, f"<CreateFleetResponse><fleetId>fleet-0</fleetId>{errors}</CreateFleetResponse>".encode()
        status, content = await forward(_narrowed(body, left[0]))
        if status != 200:
            return status, content
        await self._set_groups(
            content, given[f"{left[0].config}.LaunchTemplateSpecification.LaunchTemplateName"], forward
        )
        return status, content.replace(b"</CreateFleetResponse>", f"{errors}</CreateFleetResponse>".encode())

    def _code(self, choice: Choice, way: str) -> str:
        name, zone = choice.said["InstanceType"], choice.said["AvailabilityZone"]
        if self.only and self.only != way:
            return ""
        return self.short.get((name, zone)) or self.short.get(name) or self.short.get("*", "")

    async def _set_groups(self, content: bytes, template: str, forward: Forward) -> None:
        ids = re.findall(rb"<instanceIds>(.*?)</instanceIds>", content, re.DOTALL)
        for id_ in re.findall(rb"i-[0-9a-f]+", b" ".join(ids)):
            self.launched.append(id_.decode())
            if self.tenancies.get(template, "default") != "default":
                self.tenants[id_.decode()] = self.tenancies[template]
            if template in self.targets:
                self.reserved[id_.decode()] = self.targets[template]
            if self.clock is not None:
                self.launched_at[id_.decode()] = self.clock.now().strftime("%Y-%m-%dT%H:%M:%S.000Z")
            groups = [(f"GroupId.{n}", group) for n, group in enumerate(self.groups.get(template, ()), 1)]
            asked = [("Action", "ModifyInstanceAttribute"), ("Version", "2016-11-15"), ("InstanceId", id_.decode())]
            if groups:
                status, said = await forward(urlencode([*asked, *groups]).encode())
                assert status == 200, said


def choices_of(given: dict[str, str]) -> list[Choice]:
    """The overrides of a fleet, in order."""
    found: dict[tuple[int, int], Choice] = {}
    for name, value in given.items():
        match = _OVERRIDE.match(name)
        if match:
            key = int(match[2]), int(match[3])
            found.setdefault(key, Choice(match[1], match[3])).said[match[4]] = value
    return [each for _, each in sorted(found.items())]


def _narrowed(body: bytes, choice: Choice) -> bytes:
    """The request with only this override."""
    kept: list[tuple[str, str]] = []
    for name, value in parse_qsl(body.decode()):
        if value == "capacity-block":
            kept.append((name, "on-demand"))  # moto knows no other
        elif not name.startswith("LaunchTemplateConfigs."):
            kept.append((name, value))
        elif name.startswith(f"{choice.config}.LaunchTemplateSpecification"):
            kept.append((name.replace(choice.config, "LaunchTemplateConfigs.1", 1), value))
        elif name.startswith(f"{choice.config}.Overrides.{choice.number}."):
            kept.append((f"LaunchTemplateConfigs.1.Overrides.1.{name.rpartition('.')[2]}", value))
    return urlencode(kept).encode()


def _told(choice: Choice, code: str, way: str) -> str:
    said = choice.said
    place = f"<subnetId>{said['SubnetId']}</subnetId><availabilityZone>{said['AvailabilityZone']}</availabilityZone>"
    override = f"<overrides><instanceType>{said['InstanceType']}</instanceType>{place}</overrides>"
    return (
        f"<item><launchTemplateAndOverrides>{override}</launchTemplateAndOverrides><lifecycle>{way}</lifecycle>"
        f"<errorCode>{code}</errorCode><errorMessage>{code}, says the proxy</errorMessage></item>"
    )


def error(code: str) -> bytes:
    """An error in EC2's protocol."""
    said = f"<Error><Code>{code}</Code><Message>{code}, says the proxy</Message></Error>"
    return f"<Response><Errors>{said}</Errors><RequestID>proxy</RequestID></Response>".encode()


def reply(status: int, content: bytes) -> web.Response:
    """The response of the proxy."""
    return web.Response(status=status, body=content, content_type="text/xml")
