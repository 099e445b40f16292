"""Puts a case into the cluster, reads it back as the controller would, and clears it away."""

import asyncio
import time
from datetime import UTC, datetime
from random import SystemRandom

from dovetail.controllers.cluster_state import ClusterState
from dovetail.kube.cluster_access import connect
from e2e.agreement.disks import volume
from e2e.agreement.words import DRIVER, NAMESPACES, PRIORITIES, RUNTIME, RUNTIME_OVERHEAD
from e2e.controlplane.api import eventually

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
SELECTED = "volume.kubernetes.io/selected-node"
PASSING_TAINTS = {"node.kubernetes.io/not-ready"}
CORDON = "node.kubernetes.io/unschedulable"
AT_ONCE = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
CLEARED = (
    "/api/v1/pods",
    "/api/v1/persistentvolumeclaims",
    "/api/v1/persistentvolumes",
    "/apis/storage.k8s.io/v1/csinodes",
    "/apis/storage.k8s.io/v1/storageclasses",
    "/api/v1/nodes",
)
SETTLING = 0.3  # seconds until the caches of scheduler and controllers have heard of the last change


class SystemClock:
    def now(self):
        return datetime.now(UTC)


def prepare(control_plane):
    """What all cases share. Namespaces are those of the vocabulary."""
    api = control_plane.api
    for name, labels in NAMESPACES.items():
        control_plane.create_namespace(name)
        api.patch(f"/api/v1/namespaces/{name}", {"metadata": {"labels": labels}}).expect()
    for name, value in PRIORITIES.items():
        api.post("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": name}, "value": value}).expect()
    boxed = {"metadata": {"name": RUNTIME}, "handler": "boxed", "overhead": {"podFixed": RUNTIME_OVERHEAD}}
    assert api.post("/apis/node.k8s.io/v1/runtimeclasses", boxed).status in {201, 409}


def build(api, case):
    """Make everything of a case and wait until the controllers have done their part."""
    for node in case.nodes:
        api.post("/api/v1/nodes", node).expect()
    for path, manifest in case.storage:
        api.post(path, manifest).expect()
    for _, manifest in case.storage:
        if "claimRef" in manifest.get("spec", {}):
            bind(api, manifest)
    for pod in (*case.bound_pods, *case.waiting):
        made = api.post(f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods", pod).expect()
        if pod["metadata"]["name"] in case.ended:
            api.patch(f"{pod_path(made)}/status", {"status": {"phase": "Succeeded"}}).expect()
    for path in case.deleted:
        api.delete(path).expect()
    eventually(lambda: _settled(api, case), f"{case.name} is set", every=0.02)
    time.sleep(SETTLING)


def _settled(api, case):
    nodes = api.items("/api/v1/nodes")
    assert len(nodes) == len(case.nodes)
    for node in nodes:
        taints = {taint["key"] for taint in node["spec"].get("taints", [])}
        assert not taints & PASSING_TAINTS
        assert node["spec"].get("unschedulable", False) == (CORDON in taints)
    claims = {_key(each): each for each in api.items("/api/v1/persistentvolumeclaims")}
    assert all(claim["status"]["phase"] == "Bound" for claim in claims.values() if "volumeName" in claim["spec"])
    for pod in case.waiting:
        namespace, name = _key(pod)
        ephemeral = [each["name"] for each in pod["spec"]["volumes"] if "ephemeral" in each]
        assert all((namespace, f"{name}-{each}") in claims for each in ephemeral)
    return True


def bind(api, volume_manifest):
    """Bind a volume and its claim, as the volume controller does when it comes by, every 15 seconds."""
    name, reference = volume_manifest["metadata"]["name"], volume_manifest["spec"]["claimRef"]
    path = f"/api/v1/namespaces/{reference['namespace']}/persistentvolumeclaims/{reference['name']}"
    uid = api.get(path).expect()["metadata"]["uid"]
    api.patch(f"/api/v1/persistentvolumes/{name}", {"spec": {"claimRef": {"uid": uid}}}).expect()
    completed = {"metadata": {"annotations": {BIND_COMPLETED: "yes"}}, "spec": {"volumeName": name}}
    api.patch(path, completed).expect()


def _key(thing):
    return thing["metadata"]["namespace"], thing["metadata"]["name"]


def pod_path(pod):
    namespace, name = _key(pod)
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def snapshot(kubeconfig):
    """The cluster through our own client and what the controllers know of it, as after their first list."""

    async def read():
        async with await connect(kubeconfig, None, SystemClock(), SystemRandom()) as cluster:
            state = ClusterState(cluster)
            running = [asyncio.ensure_future(informer.run()) for informer in state.informers]
            await state.synced()
            for each in running:
                each.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            assert not [bad for informer in state.informers for bad in informer.unreadable.values()]
            return state.snapshot(datetime.now(UTC), {})

    return asyncio.run(read())


def provision(api):
    """Be the volume provisioner: a volume for each claim that the scheduler has chosen a node for.

    It is reachable wherever the class allows, so that what holds for the claim before it is bound holds afterwards.
    """
    for claim in api.items("/api/v1/persistentvolumeclaims"):
        meta, spec = claim["metadata"], claim["spec"]
        if SELECTED not in meta.get("annotations", {}) or spec.get("volumeName"):
            continue
        name = f"made-{meta['uid']}"
        storage_class = api.get(f"/apis/storage.k8s.io/v1/storageclasses/{spec['storageClassName']}").expect()
        terms = [
            [
                {"key": each["key"], "operator": "In", "values": each["values"]}
                for each in place["matchLabelExpressions"]
            ]
            for place in storage_class.get("allowedTopologies", [])
        ]
        source = {"csi": {"driver": DRIVER, "volumeHandle": name}}
        made = volume(name, _key(claim), spec["storageClassName"], terms, source)
        api.post("/api/v1/persistentvolumes", made).expect()
        bind(api, made)


def clear(api):
    """Delete everything of the case, finalizers or not, and wait until it is gone."""
    eventually(lambda: not sum(_delete(api, kind) for kind in CLEARED), "the case is cleared away", every=0.02)


def _delete(api, kind):
    found = api.items(kind)
    group, _, plural = kind.rpartition("/")
    for item in found:
        meta = item["metadata"]
        namespace = f"/namespaces/{meta['namespace']}" if "namespace" in meta else ""
        path = f"{group}{namespace}/{plural}/{meta['name']}"
        if meta.get("finalizers"):
            api.patch(path, {"metadata": {"finalizers": None}})
        api.delete(path, AT_ONCE)
    return len(found)
