"""Which authorizations AWS makes for a request: the actions, resources and condition keys of `iam_policy`.

Follows the service authorization reference for the requests of a node autoscaler. Tags of launch templates and
instance profiles are remembered from the requests that created them; those of instances are looked up. A request that
is not known here is checked as its own action on all resources.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from cloud.aws.iam_policy import ACCOUNT_ID, Check, Policy

Tags = dict[str, str]
FindTags = Callable[[str], Awaitable[Tags | None]]
"""The tags of an instance; None if it does not exist."""
NAMED_OTHERWISE = {"DeleteMessageBatch": "DeleteMessage"}
NEEDS_NO_PERMISSION = {"sts:GetCallerIdentity"}
_PROFILE_CHANGES = (
    "AddRoleToInstanceProfile",
    "RemoveRoleFromInstanceProfile",
    "DeleteInstanceProfile",
    "TagInstanceProfile",
)


@dataclass(frozen=True)
class Call:
    """A request to AWS: where it goes, and its parameters, nested."""

    service: str
    region: str
    operation: str
    given: Mapping[str, Any]

    @property
    def action(self) -> str:
        return f"{self.service}:{NAMED_OTHERWISE.get(self.operation, self.operation)}"


@dataclass
class IamGuard:
    """Checks the calls of a controller against policies, by name."""

    policies: Mapping[str, Policy]
    profiles: dict[str, Tags] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)
    """The paths of instance profiles."""
    roles: dict[str, str] = field(default_factory=dict)
    """The roles of instance profiles."""
    templates: dict[str, tuple[Tags, Mapping[str, Any]]] = field(default_factory=dict)
    """Tags and data of launch templates."""
    allowed: set[tuple[str, str, str]] = field(default_factory=set)
    """Policy, action and statement of everything that was allowed."""
    denied: list[str] = field(default_factory=list)

    async def check(self, call: Call, find_tags: FindTags) -> list[str]:
        """What the policies deny; empty if the call is allowed."""
        found: list[str] = []
        for each in await self._checks(call, find_tags):
            for name, policy in self.policies.items():
                statement = policy.statement(each)
                if statement:
                    self.allowed.add((name, each.action, statement))
                else:
                    found.append(f"the {name} policy denies {each}")
        self.denied += found
        return found

    def allow_to_pass(self, role: str) -> None:
        """Add a statement for another role of nodes to every policy."""
        resource = f"arn:aws:iam::{ACCOUNT_ID}:role/{role}"
        statement = {"Sid": role, "Effect": "Allow", "Action": "iam:PassRole", "Resource": resource}
        self.policies = {name: Policy((*each.statements, statement)) for name, each in self.policies.items()}

    def remember(self, call: Call) -> None:
        """Remember the tags of a resource that the call creates."""
        given = call.given
        if call.operation == "CreateLaunchTemplate":
            tags = tags_by_type(given.get("TagSpecification")).get("launch-template", {})
            data = given.get("LaunchTemplateData", {})
            self.templates.setdefault(given["LaunchTemplateName"], (tags, data))
        elif call.operation == "CreateInstanceProfile":
            self.profiles[given["InstanceProfileName"]] = _tags(given.get("Tags", {}).get("member"))
            self.paths[given["InstanceProfileName"]] = given.get("Path", "/")
        elif call.operation == "AddRoleToInstanceProfile":
            self.roles[given["InstanceProfileName"]] = given["RoleName"]

    async def _checks(self, call: Call, find_tags: FindTags) -> list[Check]:
        if call.service == "ec2":
            return [each async for each in self._ec2(call, find_tags)]
        if call.service == "iam":
            return list(self._iam(call))
        if call.action in NEEDS_NO_PERMISSION:
            return []
        return [Check(call.action, _resource(call), _context(call))]

    async def _ec2(self, call: Call, find_tags: FindTags) -> Any:
        given = call.given
        if call.operation in ("TerminateInstances", "CreateTags", "DeleteTags"):
            for id_ in given.get("InstanceId") or given.get("ResourceId") or ():
                tags = await find_tags(id_)
                if tags is not None:
                    requested = _request_tags(_tags(given.get("Tag")))
                    yield Check(call.action, _arn(call, "instance", id_), _context(call, tags) | requested)
        elif call.operation == "DeleteLaunchTemplate":
            name = given["LaunchTemplateName"]
            if name in self.templates:
                yield self._template_check(call, name)
        elif call.operation == "CreateLaunchTemplate":
            tags = tags_by_type(given.get("TagSpecification")).get("launch-template", {})
            for each in _creation(call, call.operation, "launch-template", tags):
                yield each
        elif call.operation in ("CreateFleet", "RunInstances"):
            for each in self._launch(call):
                yield each
        else:
            yield Check(call.action, "*", _context(call))

    def _template_check(self, call: Call, name: str) -> Check:
        return Check(call.action, _arn(call, "launch-template", name), _context(call, self.templates[name][0]))

    def _launch(self, call: Call) -> Iterator[Check]:
        """A fleet launches with RunInstances, which is authorized like the fleet itself."""
        given = call.given
        configs = [each["LaunchTemplateSpecification"] for each in given.get("LaunchTemplateConfigs", ())]
        requested = tags_by_type(given.get("TagSpecification"))
        if call.operation == "CreateFleet":
            yield from _creation(call, "CreateFleet", "fleet", requested.get("fleet", {}))
        if call.operation == "RunInstances" and "LaunchTemplate" not in given:
            yield from _plain_launch(call, requested)
            return
        for specification in configs or [given["LaunchTemplate"]]:
            name = specification["LaunchTemplateName"]
            if name not in self.templates:
                continue  # AWS answers that it does not exist
            data = self.templates[name][1]
            yield self._template_check(call, name)
            yield Check(call.action, f"arn:aws:ec2:{call.region}::image/{data['ImageId']}", _context(call))
            by_type = tags_by_type(data.get("TagSpecification")) | requested
            spot = given.get("TargetCapacitySpecification", {}).get("DefaultTargetCapacityType") == "spot"
            for kind in ("instance", "volume", "network-interface", *(["spot-instances-request"] if spot else [])):
                yield from _creation(call, call.operation, kind, by_type.get(kind, {}))
            yield from self._passed_role(data["IamInstanceProfile"]["Name"], call)
        for override in (each for config in given.get("LaunchTemplateConfigs", ()) for each in config["Overrides"]):
            yield Check(call.action, _arn(call, "subnet", override["SubnetId"]), _context(call))

    def _passed_role(self, profile: str, call: Call) -> Iterator[Check]:
        if profile in self.roles:
            role = f"arn:aws:iam::{ACCOUNT_ID}:role/{self.roles[profile]}"
            yield Check("iam:PassRole", role, _context(call) | {"iam:PassedToService": "ec2.amazonaws.com"})

    def _iam(self, call: Call) -> Iterator[Check]:
        name = call.given.get("InstanceProfileName", "")
        path = call.given.get("Path") or self.paths.get(name, "/")
        resource = f"arn:aws:iam::{ACCOUNT_ID}:instance-profile{path}{name}"
        if call.operation == "CreateInstanceProfile":
            requested = _request_tags(_tags(call.given.get("Tags", {}).get("member")))
            yield Check(call.action, resource, _context(call) | requested)
        elif call.operation in _PROFILE_CHANGES:
            if name in self.profiles:
                yield Check(call.action, resource, _context(call, self.profiles[name]))
            if call.operation == "AddRoleToInstanceProfile":
                role = f"arn:aws:iam::{ACCOUNT_ID}:role/{call.given['RoleName']}"
                yield Check("iam:PassRole", role, _context(call) | {"iam:PassedToService": "ec2.amazonaws.com"})
        else:
            yield Check(call.action, resource if name else "*", _context(call))


def _creation(call: Call, creator: str, kind: str, tags: Tags) -> Iterator[Check]:
    """The authorizations to create a resource with tags."""
    resource, context = _arn(call, kind, "new"), _context(call) | _request_tags(tags)
    yield Check(call.action, resource, context)
    if tags:
        yield Check("ec2:CreateTags", resource, context | {"ec2:CreateAction": creator})


def _plain_launch(call: Call, requested: dict[str, Tags]) -> Iterator[Check]:
    """RunInstances without a launch template."""
    given = call.given
    yield Check(call.action, f"arn:aws:ec2:{call.region}::image/{given['ImageId']}", _context(call))
    for kind, ids in (("subnet", [given["SubnetId"]]), ("security-group", given.get("SecurityGroupId", ()))):
        for id_ in ids:
            yield Check(call.action, _arn(call, kind, id_), _context(call))
    for kind in ("instance", "volume", "network-interface"):
        yield from _creation(call, call.operation, kind, requested.get(kind, {}))


def _context(call: Call, resource_tags: Tags | None = None) -> dict[str, Any]:
    tags = {f"aws:ResourceTag/{key}": value for key, value in (resource_tags or {}).items()}
    more = {"arc-zonal-shift:ResourceIdentifier": call.given["resourceIdentifier"]} if "arc" in call.service else {}
    return {"aws:RequestedRegion": call.region, **tags, **more}


def _request_tags(tags: Tags) -> dict[str, Any]:
    return {"aws:TagKeys": list(tags), **{f"aws:RequestTag/{key}": value for key, value in tags.items()}}


def _arn(call: Call, kind: str, name: str) -> str:
    return f"arn:aws:ec2:{call.region}:{ACCOUNT_ID}:{kind}/{name}"


def _resource(call: Call) -> str:
    given, here = call.given, f"{call.service}:{call.region}"
    if call.service == "ssm" and "Name" in given:
        return f"arn:aws:{here}::parameter/{given['Name'].lstrip('/')}"
    if call.service == "sqs":
        return f"arn:aws:{here}:{ACCOUNT_ID}:{given.get('QueueName') or given['QueueUrl'].rpartition('/')[2]}"
    if call.service == "eks":
        return f"arn:aws:{here}:{ACCOUNT_ID}:cluster/{given['name']}"
    return given["resourceIdentifier"] if "arc" in call.service else "*"


def tags_by_type(specifications: Any) -> dict[str, Tags]:
    """Tags by resource type, of the `TagSpecification` of a request."""
    return {each["ResourceType"]: _tags(each.get("Tag")) for each in specifications or ()}


def _tags(entries: Any) -> Tags:
    return {each["Key"]: each.get("Value", "") for each in entries or ()}


def nested(form: Mapping[str, Any]) -> Any:
    """The parameters of the query protocols: `Tag.1.Key=a` becomes `{"Tag": [{"Key": "a"}]}`."""
    tree: dict[str, Any] = {}
    for name, value in form.items():
        *parents, last = name.split(".")
        here = tree
        for each in parents:
            here = here.setdefault(each, {})
        here[last] = value
    return _with_lists(tree)


def _with_lists(tree: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    if tree and all(name.isdigit() for name in tree):
        return [_with_lists(tree[name]) for name in sorted(tree, key=int)]
    return {name: _with_lists(value) for name, value in tree.items()}
