"""Random pods as manifests. They come as replicas of a workload, so that rules about equal pods have some to count."""

import copy
from dataclasses import dataclass

from e2e.agreement.disks import some_volumes
from e2e.agreement.scheduler import NAME
from e2e.agreement.wishes import some_node_affinity, some_pod_terms, some_selector, some_spreads, some_tolerations
from e2e.agreement.words import APPS, GATE, GPU, NAMESPACES, PRIORITIES, RUNTIME

CPUS = ("50m", "100m", "333500u", "0.4", "900m", "1500m")
MEMORIES = ("64Mi", "100M", "300Mi", "1Gi", "1500000k")


@dataclass(frozen=True)
class Workload:
    """What equal pods are made from."""

    namespace: str
    labels: dict
    spec: dict


def some_workload(dice):
    app = dice.pick(APPS)
    labels = {"app": app}
    if dice.maybe(0.4):
        labels["track"] = "canary"
    if dice.maybe(0.3):
        labels["batch"] = dice.pick(("one", "two"))
    affinity = {
        "nodeAffinity": some_node_affinity(dice),
        "podAffinity": some_pod_terms(dice, app, "affinity", 0.45),
        "podAntiAffinity": some_pod_terms(dice, app, "anti", 0.5),
    }
    spec = {
        **_containers(dice),
        "nodeSelector": some_selector(dice),
        "affinity": {key: value for key, value in affinity.items() if value is not None},
        "tolerations": some_tolerations(dice),
        "topologySpreadConstraints": some_spreads(dice, app),
        "volumes": some_volumes(dice),
        "terminationGracePeriodSeconds": 0,
    }
    if dice.maybe(0.25):
        spec["priorityClassName"] = dice.pick(tuple(PRIORITIES))
    if dice.about("containers", 0.25):
        spec["runtimeClassName"] = RUNTIME
    namespace = dice.pick(("agree-front",) * 3 + tuple(NAMESPACES))
    return Workload(namespace, labels, spec)


def _containers(dice):
    main = {"name": "main", "image": "app", "resources": {"requests": _requests(dice)}}
    spec = {"containers": [main]}
    if dice.about("ports", 0.6):
        main["ports"] = _ports(dice)
    if dice.about("containers", 0.25):
        main["resources"] = {"requests": {**_requests(dice), GPU: "1"}, "limits": {GPU: "1"}}
    if dice.about("containers", 0.3):
        spec["containers"].append({"name": "second", "image": "app", "resources": {"requests": _requests(dice)}})
    if dice.about("containers", 0.6):
        spec["initContainers"] = [_init(dice, number) for number in range(dice.between(1, 3))]
    elif dice.about("ports", 0.3):
        spec["initContainers"] = [{**_sidecar(dice, 0), "ports": _ports(dice)}]
    if dice.about("containers", 0.2):
        spec["resources"] = {"requests": dice.pick(({"cpu": "3500m"}, {"cpu": "3300m", "memory": "7Gi"}))}
    return spec


def _init(dice, number):
    if dice.maybe(0.5):
        return _sidecar(dice, number)
    return {"name": f"init-{number}", "image": "app", "resources": {"requests": _requests(dice)}}


def _sidecar(dice, number):
    requests = {"cpu": dice.pick(CPUS[:4]), "memory": dice.pick(MEMORIES[:2])}
    return {
        "name": f"side-{number}",
        "image": "app",
        "restartPolicy": "Always",
        "resources": {"requests": requests},
    }


def _requests(dice):
    requests = {}
    if dice.maybe(0.85):
        requests["cpu"] = dice.pick(CPUS)
    if dice.maybe(0.7):
        requests["memory"] = dice.pick(MEMORIES)
    if dice.maybe(0.1):
        requests["ephemeral-storage"] = "1500Mi"
    return requests


def _ports(dice):
    ports = []
    for number in dice.some((8080, 9090))[:1] if dice.maybe(0.8) else (8080, 9090):
        port = {"containerPort": number, "hostPort": number, "protocol": dice.pick(("TCP", "TCP", "UDP"))}
        if dice.maybe(0.5):
            port["hostIP"] = dice.pick(("0.0.0.0", "10.0.0.1", "10.0.0.2"))  # noqa: S104 - as a pod writes it
        ports.append(port)
    return ports


def replica(dice, workload, name):
    """A pod that waits for us before it goes to the scheduler."""
    pod = _pod(dice, workload, name)
    pod["spec"]["schedulerName"] = NAME
    pod["spec"]["schedulingGates"] = [{"name": GATE}]
    return pod


def bound_pod(dice, workload, name, node):
    """A small pod that is on a node already, by whatever way."""
    pod = _pod(dice, workload, name)
    spec = pod["spec"]
    for part in ("initContainers", "resources", "runtimeClassName"):
        spec.pop(part, None)
    for container in spec["containers"]:
        container["resources"] = {"requests": {"cpu": "20m", "memory": "16Mi"}}
    spec["volumes"] = [each for each in spec["volumes"] if each["name"] in ("zonal", "either", "plain")]
    spec["tolerations"] = [{"operator": "Exists"}]  # or the taint eviction controller ends it
    spec["nodeName"] = node
    return pod


def _pod(dice, workload, name):
    labels = {**workload.labels, **({"hash": dice.pick(("h1", "h2"))} if dice.maybe(0.8) else {})}
    metadata = {"name": name, "namespace": workload.namespace, "labels": labels}
    return {"metadata": metadata, "spec": copy.deepcopy(workload.spec)}
