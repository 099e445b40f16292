"""The part of `dovetail adopt` that is about AWS: hashes of EC2NodeClasses, and permissions by EC2 dry runs.

The dry runs use the credentials of this process, which usually are not those of Karpenter's role; the report says whose
they are. Without the SDK, a region or credentials, they are not made, and the report says why.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dovetail.cloud.aws.labels import CLASS_HASH, CLASS_HASH_VERSION
from dovetail.cloud.aws.nodeclass_hash import HASH_VERSION, class_hash
from dovetail.core.adoption.facts import ActionCheck, AdoptionFacts, ClassHash, IamChecks, UncheckedPart
from dovetail.kube.cluster_access import ClusterAccess
from dovetail.model.ec2nodeclass import EC2NodeClass
from dovetail.model.kinds import EC2_NODE_CLASS
from dovetail.model.labels import INSTANCE_TYPE
from dovetail.model.nodepool import NodeClassRef
from dovetail.ports.errors import CloudError

if TYPE_CHECKING:
    from dovetail.cloud.aws.clients import AwsClients
    from dovetail.cloud.aws.permission_check import LaunchSample

_NO_CLASS = "no EC2NodeClass is in use"


async def with_aws_facts(
    facts: AdoptionFacts, classes: Sequence[EC2NodeClass], access: ClusterAccess, cluster_name: str
) -> AdoptionFacts:
    """The facts with the hashes of the classes and the answers of the dry runs."""
    facts = replace(facts, class_hashes=tuple(_class_hash(each, facts, access) for each in classes))
    try:
        from dovetail.cloud.aws.clients import AwsClients  # noqa: PLC0415 - optional dependency
    except ModuleNotFoundError as error:
        return _unchecked(facts, f"the package {error.name} is missing; pip install 'dovetail[aws]'")
    aws = AwsClients(region=access.eks.region, profile=access.eks.profile)
    try:
        return replace(facts, iam=await dry_runs(facts, classes, cluster_name or access.eks.cluster_name, aws))
    except CloudError as error:
        return _unchecked(facts, f"no dry run was possible with the credentials of this process: {error}")
    finally:
        await aws.aclose()


def _unchecked(facts: AdoptionFacts, why: str) -> AdoptionFacts:
    return replace(facts, unchecked=(*facts.unchecked, UncheckedPart(what="IAM", why=why)))


def _class_hash(node_class: EC2NodeClass, facts: AdoptionFacts, access: ClusterAccess) -> ClassHash:
    """The CA bundle is part of the hash; if Karpenter's is not known, that of the kubeconfig may be another one."""
    configured = facts.karpenter.environment.get("CLUSTER_CA_BUNDLE", "") if facts.karpenter is not None else ""
    annotations = node_class.metadata.annotations
    return ClassHash(
        name=node_class.name,
        version=annotations.get(CLASS_HASH_VERSION, ""),
        written=annotations.get(CLASS_HASH, ""),
        own_version=HASH_VERSION,
        computed=class_hash(node_class, configured or access.endpoint.ca_bundle),
        certain=bool(configured),
    )


async def dry_runs(
    facts: AdoptionFacts, classes: Sequence[EC2NodeClass], cluster_name: str, aws: "AwsClients"
) -> IamChecks:
    """Ask EC2 about every action; raises `CloudError` if there are no credentials, or nothing to ask about."""
    from dovetail.cloud.aws.permission_check import check_permissions, find_caller  # noqa: PLC0415 - as above

    if not aws.region:
        raise CloudError("no AWS region is known; set AWS_REGION, or a region in the profile")
    caller = await find_caller(aws)
    answers = await check_permissions(aws, _sample(facts, classes, cluster_name))
    actions = tuple(ActionCheck(action=each.action, allowed=each.allowed, detail=each.detail) for each in answers)
    return IamChecks(caller=caller, actions=actions)


def _sample(facts: AdoptionFacts, classes: Sequence[EC2NodeClass], cluster_name: str) -> "LaunchSample":
    """A launch like those of Karpenter: the class and type of a node that it launched, if there is one."""
    from dovetail.cloud.aws.permission_check import LaunchSample  # noqa: PLC0415 - as above

    if not cluster_name:
        raise CloudError("the name of the EKS cluster is not known; set --cluster-name (CLUSTER_NAME)")
    by_name = {each.name: each for each in classes}

    def class_of(ref: NodeClassRef) -> EC2NodeClass | None:
        return by_name.get(ref.name) if ref.api_group == EC2_NODE_CLASS.group else None

    for node in facts.snapshot.nodes:
        found = class_of(node.claim.spec.node_class_ref) if node.claim is not None else None
        if node.claim is not None and found is not None and INSTANCE_TYPE in node.labels:
            return LaunchSample(
                cluster_name=cluster_name,
                node_class=found,
                nodepool=node.nodepool_name,
                instance_type=node.labels[INSTANCE_TYPE],
                instance_id=node.claim.provider_id.rpartition("/")[2],
            )
    for pool in facts.snapshot.nodepools.values():
        if (found := class_of(pool.node_class_ref)) is not None:
            return LaunchSample(
                cluster_name=cluster_name, node_class=found, nodepool=pool.name, instance_type="m5.large"
            )
    raise CloudError(_NO_CLASS)
