"""The steps to switch from Karpenter to Dovetail and back, as commands for a shell.

Dovetail is started while Karpenter still runs, with Karpenter's Lease: it stands by and writes nothing until Karpenter
has released the Lease. It is installed without replicas, so that no process runs before the Lease is configured. No
CustomResourceDefinition is changed, so the way back is the same in the other direction.
"""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from dovetail.core.adoption.facts import LEASE_NAME, AdoptionFacts, KarpenterDeployment, LeaseState
from dovetail.core.adoption.permissions import NAMESPACE

MANIFESTS = "deploy/beside-karpenter"
REPLICAS = 2
"""Of Dovetail; and of Karpenter by its Helm chart, where it has been stopped already."""
AWS = "karpenter.k8s.aws"
NOT_PASSED_ON = frozenset(
    {
        "CPU_REQUESTS",
        "DISABLE_LEADER_ELECTION",
        "HEALTH_PROBE_PORT",
        "KARPENTER_SERVICE",
        "KUBERNETES_MIN_VERSION",
        "LEADER_ELECTION_NAME",
        "LEADER_ELECTION_NAMESPACE",
        "LOG_ERROR_OUTPUT_PATHS",
        "LOG_OUTPUT_PATHS",
        "MEMORY_LIMIT",
        "METRICS_PORT",
        "SYSTEM_NAMESPACE",
    }
)
"""Variables of Karpenter's Deployment that describe its own pod, or that Dovetail's Deployment has already."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step: what it does, the commands, and what to see before the next one."""

    title: str
    commands: tuple[str, ...]
    check: str = ""


def switch_steps(facts: AdoptionFacts, image: str) -> tuple[Step, ...]:
    """The steps from Karpenter to Dovetail."""
    karpenter, lease = _known(facts)
    classes = ",".join(_class_resources(facts))
    holder = f"kubectl -n {lease.namespace} get lease {lease.name} -o jsonpath='{{.spec.holderIdentity}}{{\"\\n\"}}'"
    return (
        Step("Save the manifests.", (f"kubectl get {classes} -o yaml > before-dovetail.yaml",)),
        Step(
            "In a checkout of Dovetail, install it without replicas, with the image that you built. No CRD is changed.",
            (
                f"kubectl apply --server-side -k {MANIFESTS}",
                _lease_role(lease),
                f"kubectl -n {NAMESPACE} set image deployment/dovetail dovetail={shlex.quote(image)}",
                f"kubectl -n {NAMESPACE} set env deployment/dovetail {_environment(karpenter, lease)}",
                *_unread(karpenter),
                *_identity(facts, karpenter),
            ),
        ),
        _start(facts.lease is not None and not lease.held(facts.snapshot.at)),
        Step(
            "Stop Karpenter. Dovetail takes the Lease, with disruption off.",
            (
                f"kubectl -n {karpenter.namespace} scale deployment {karpenter.name} --replicas=0",
                f"kubectl -n {karpenter.namespace} wait --for=delete pod -l {karpenter.selector} --timeout=120s",
                holder,
            ),
            "the holder is a pod of Dovetail",
        ),
        Step(
            "Check that everything is Ready and that there is no new NodeClaim.",
            ("kubectl get nodepools,nodeclaims", "dovetail plan"),
            "read the plan: it is what the next step allows",
        ),
        Step(
            "Switch disruption on.",
            (f"kubectl -n {NAMESPACE} set env deployment/dovetail DOVETAIL_DISRUPTION=on",),
        ),
    )


def _start(free: bool) -> Step:
    """Start Dovetail. `free`: whether the Lease is known to have no holder."""
    then = "It stands by as long as Karpenter holds the Lease."
    if free:
        then = "It acts as soon as it has the Lease, with disruption off: Karpenter does not hold it now."
    return Step(
        f"Start it. {then}",
        (
            f"kubectl -n {NAMESPACE} scale deployment dovetail --replicas={REPLICAS}",
            f"kubectl -n {NAMESPACE} rollout status deployment/dovetail --timeout=120s",
            f"kubectl -n {NAMESPACE} logs deployment/dovetail | grep 'waiting to lead'",
        ),
    )


def steps_back(facts: AdoptionFacts) -> tuple[Step, ...]:
    """The steps from Dovetail to Karpenter."""
    karpenter, lease = _known(facts)
    scale = f"kubectl -n {karpenter.namespace} scale deployment {karpenter.name}"
    return (
        Step(
            "Switch disruption off, and wait for the nodes that are being removed.",
            (
                f"kubectl -n {NAMESPACE} set env deployment/dovetail DOVETAIL_DISRUPTION=off",
                "kubectl get nodeclaims -o custom-columns=NAME:.metadata.name,DELETED:.metadata.deletionTimestamp",
            ),
            "DELETED is <none> for every NodeClaim",
        ),
        Step(
            "Stop Dovetail.",
            (
                f"kubectl -n {NAMESPACE} scale deployment dovetail --replicas=0",
                f"kubectl -n {NAMESPACE} wait --for=delete pod -l app.kubernetes.io/name=dovetail --timeout=120s",
            ),
        ),
        Step(
            "Start Karpenter.",
            (
                f"{scale} --replicas={karpenter.replicas or REPLICAS}",
                f"kubectl -n {karpenter.namespace} rollout status deployment/{karpenter.name} --timeout=120s",
                f"kubectl -n {lease.namespace} get lease {lease.name}",
            ),
            "the holder is a pod of Karpenter",
        ),
    )


def _lease_role(lease: LeaseState) -> str:
    apply, file = f"kubectl -n {lease.namespace} apply --server-side -f", f"{MANIFESTS}/lease-role.yaml"
    return f"{apply} {file}" if lease.name == LEASE_NAME else f"sed s/{LEASE_NAME}/{lease.name}/ {file} | {apply} -"


def _known(facts: AdoptionFacts) -> tuple[KarpenterDeployment, LeaseState]:
    """Karpenter's Deployment and Lease; the names of its Helm chart where they are not known."""
    karpenter = facts.karpenter or KarpenterDeployment(namespace="kube-system", name="karpenter", replicas=2)
    name = karpenter.environment.get("LEADER_ELECTION_NAME") or LEASE_NAME
    namespace = karpenter.environment.get("LEADER_ELECTION_NAMESPACE") or karpenter.namespace
    return karpenter, facts.lease or LeaseState(namespace=namespace, name=name)


def _class_resources(facts: AdoptionFacts) -> Iterator[str]:
    yield "nodepools.karpenter.sh"
    if AWS in facts.providers:
        yield f"ec2nodeclasses.{AWS}"
    if "karpenter.kwok.sh" in facts.providers:
        yield "kwoknodeclasses.karpenter.kwok.sh"


def _environment(karpenter: KarpenterDeployment, lease: LeaseState) -> str:
    """Karpenter's variables that matter to Dovetail, and the Lease."""
    passed_on = {name: value for name, value in karpenter.environment.items() if name not in NOT_PASSED_ON}
    variables = {"LEADER_ELECTION_NAME": lease.name, "LEADER_ELECTION_NAMESPACE": lease.namespace, **passed_on}
    return " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())


def _unread(karpenter: KarpenterDeployment) -> Iterator[str]:
    if karpenter.unread:
        names = ", ".join(karpenter.unread)
        yield f"# Also set what Karpenter's Deployment only refers to: {names}"


def _identity(facts: AdoptionFacts, karpenter: KarpenterDeployment) -> Iterator[str]:
    """The commands that give Dovetail's service account an IAM role."""
    if AWS not in facts.providers:
        return
    account = f"{karpenter.namespace}:{karpenter.service_account or 'karpenter'}"
    if karpenter.role_arn:
        yield (
            f"# In the trust policy of {karpenter.role_arn}, allow system:serviceaccount:{NAMESPACE}:dovetail"
            f" beside system:serviceaccount:{account}. Then:"
        )
        yield (
            f"kubectl -n {NAMESPACE} annotate --overwrite serviceaccount dovetail"
            f" eks.amazonaws.com/role-arn={karpenter.role_arn}"
        )
        return
    cluster = shlex.quote(karpenter.environment.get("CLUSTER_NAME") or "CLUSTER")
    namespace, _, name = account.partition(":")
    yield (
        f"ROLE=$(aws eks describe-pod-identity-association --cluster-name {cluster} --query association.roleArn"
        f" --output text --association-id $(aws eks list-pod-identity-associations --cluster-name {cluster}"
        f" --namespace {namespace} --service-account {name} --query 'associations[0].associationId' --output text))"
    )
    yield (
        f"aws eks create-pod-identity-association --cluster-name {cluster} --namespace {NAMESPACE}"
        f" --service-account dovetail --role-arn $ROLE"
    )
