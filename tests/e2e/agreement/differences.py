"""Where solver and scheduler are known to differ, one small cluster each, with the reason.

The random clusters leave these out. A row that no longer differs fails its test and is to be deleted.
"""

from dataclasses import dataclass

from e2e.agreement.cases import Case
from e2e.agreement.disks import volume
from e2e.agreement.scheduler import NAME
from e2e.agreement.wishes import expression
from e2e.agreement.words import DRIVER, GATE, HOSTNAME, ZONE

SPACE = "agree-lab"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
CLAIMS = f"/api/v1/namespaces/{SPACE}/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
READY = [{"type": "Ready", "status": "True", "reason": "Test", "message": "there is no kubelet"}]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True)
class Difference:
    """The solver places the last pod and the scheduler does not, or the other way round."""

    name: str
    why: str
    solver_places: bool
    case: Case

    def __str__(self):
        return self.name.replace(" ", "-")


def _node(*, labels=(), hostname=True, finalizers=()):
    sizes = {"cpu": "2", "memory": "4Gi", "pods": "10"}
    carried = {**({HOSTNAME: "one"} if hostname else {}), **dict(labels)}
    return {
        "metadata": {"name": "one", "labels": carried, "finalizers": list(finalizers)},
        "spec": {"taints": []},
        "status": {"allocatable": sizes, "capacity": sizes, "conditions": READY},
    }


def _pod(name, *, cpu="", labels=(), **spec):
    requests = {"cpu": cpu} if cpu else {}
    main = {"name": "main", "image": "app", "resources": {"requests": requests}, "ports": spec.pop("ports", [])}
    return {
        "metadata": {"name": name, "namespace": SPACE, "labels": dict(labels)},
        "spec": {"containers": [main], "volumes": [], "terminationGracePeriodSeconds": 0, **spec},
    }


def _case(name, *, node=None, bound_pod=None, pod=None, storage=(), deleted=()):
    waiting = pod or _pod("asks")
    waiting["spec"] |= {"schedulerName": NAME, "schedulingGates": [{"name": GATE}]}
    bound_pods = [] if bound_pod is None else [bound_pod]
    for each in bound_pods:
        each["spec"] |= {"nodeName": "one", "tolerations": [{"operator": "Exists"}]}
    return Case(name, [node or _node()], list(storage), bound_pods, frozenset(), [waiting], tuple(deleted))


def _on_claim(name, **spec):
    return _pod(name, volumes=[{"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}], **spec)


def _storage(*, mode="ReadWriteMany", labels=(), provisioner=DRIVER, bound=True):
    """A class, a claim, and a volume that names the claim if `bound`."""
    claim_spec = {"storageClassName": "known", "accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}}
    made = [(CLASSES, {"metadata": {"name": "known"}, "provisioner": provisioner, "volumeBindingMode": WAIT})]
    made.append((CLAIMS, {"metadata": {"name": "disk", "namespace": SPACE}, "spec": claim_spec}))
    if bound:
        disk = volume("disk", (SPACE, "disk"), "known", [], {"csi": {"driver": DRIVER, "volumeHandle": "disk"}})
        disk["metadata"]["labels"] = dict(labels)
        disk["spec"]["accessModes"] = [mode]
        made.append((VOLUMES, disk))
    return made


WAIT = "WaitForFirstConsumer"


def _port(address):
    return {"containerPort": 80, "hostPort": 8080, "hostIP": address}


def _far(app, *namespaces):
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": app}}}
    if namespaces:
        term["namespaceSelector"] = {"matchExpressions": list(namespaces)}
    return {"podAntiAffinity": {REQUIRED: [term]}}


_SPREAD = {
    "topologyKey": HOSTNAME,
    "maxSkew": 1,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
}

DIFFERENCES = (
    Difference(
        "overdrawn node",
        "A node that owes cpu is full for us; the scheduler still takes pods there that ask for none.",
        solver_places=False,
        case=_case("overdrawn node", bound_pod=_pod("greedy", cpu="3")),
    ),
    Difference(
        "every IPv6 address",
        "`::` takes the port on every address; the scheduler knows only 0.0.0.0 to do that, and the pod fails later.",
        solver_places=False,
        case=_case(
            "every IPv6 address",
            bound_pod=_pod("server", ports=[_port("10.0.0.1")]),
            pod=_pod("asks", ports=[_port("::")]),
        ),
    ),
    Difference(
        "old label",
        "Older spellings of a label mean the newer one, for nodes that carry only that.",
        solver_places=True,
        case=_case(
            "old label", node=_node(labels={ZONE: "zone-a"}), pod=_pod("asks", nodeSelector={OLD_ZONE: "zone-a"})
        ),
    ),
    Difference(
        "leaving pod",
        "A pod that is being deleted is no neighbour any more: it is gone by the time a node is bought. "
        "The scheduler keeps away from it until then.",
        solver_places=True,
        case=_case(
            "leaving pod",
            bound_pod=_pod("leaves", labels={"app": "web"}, terminationGracePeriodSeconds=3600),
            pod=_pod("asks", affinity=_far("web")),
            deleted=[f"/api/v1/namespaces/{SPACE}/pods/leaves"],
        ),
    ),
    Difference(
        "leaving node",
        "A node that is being deleted takes no pods; the scheduler sends them there until it is drained.",
        solver_places=False,
        case=_case("leaving node", node=_node(finalizers=[GATE]), deleted=["/api/v1/nodes/one"]),
    ),
    Difference(
        "zone in a volume's labels",
        "Volumes of before 1.12 name their zone in labels alone. Node affinity is all we read.",
        solver_places=True,
        case=_case(
            "zone in a volume's labels",
            node=_node(labels={ZONE: "zone-a"}),
            pod=_on_claim("asks"),
            storage=_storage(labels={ZONE: "zone-b"}),
        ),
    ),
    Difference(
        "claim for one pod",
        "ReadWriteOncePod: the claim has a user already. That is no matter of nodes, and no node would help.",
        solver_places=True,
        case=_case(
            "claim for one pod",
            bound_pod=_on_claim("user"),
            pod=_on_claim("asks"),
            storage=_storage(mode="ReadWriteOncePod"),
        ),
    ),
    Difference(
        "claim without local volume",
        "A claim that waits for a volume somebody makes by hand: which volumes are free is not looked at.",
        solver_places=True,
        case=_case(
            "claim without local volume",
            pod=_on_claim("asks"),
            storage=_storage(provisioner="kubernetes.io/no-provisioner", bound=False),
        ),
    ),
    Difference(
        "node without hostname",
        "Every node is a domain of its own; a kubelet always writes the label, the scheduler insists on it.",
        solver_places=True,
        case=_case(
            "node without hostname",
            node=_node(hostname=False),
            pod=_pod("asks", labels={"app": "web"}, topologySpreadConstraints=[_SPREAD]),
        ),
    ),
    Difference(
        "hostname spread",
        "A node more is always possible, so a node takes at most maxSkew pods. The scheduler compares with the nodes "
        "that exist: where there is one, it takes them all.",
        solver_places=False,
        case=_case(
            "hostname spread",
            bound_pod=_pod("first", labels={"app": "web"}),
            pod=_pod("asks", labels={"app": "web"}, topologySpreadConstraints=[_SPREAD]),
        ),
    ),
    Difference(
        "namespaces by what they lack",
        "Kubernetes 1.35 looks at a pod's own namespace selectors a second time, with no labels at all: NotIn and "
        "DoesNotExist then select every namespace. We select those that are meant.",
        solver_places=True,
        case=_case(
            "namespaces by what they lack",
            bound_pod=_pod("near", labels={"app": "web"}),
            pod=_pod("asks", affinity=_far("web", expression("kubernetes.io/metadata.name", "NotIn", SPACE))),
        ),
    ),
)
