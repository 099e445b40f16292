"""What a contract case is given: a cluster behind its port, a namespace of its own, and ways to make what it needs.

A world or a real cluster is made testable by deriving from `Environment` and filling in what is abstract here. Time is
the loop's: virtual or real, the cases do not know.
"""

import asyncio
import itertools
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any

from dovetail.model.kinds import NODE, POD
from dovetail.model.kube_object import Key
from dovetail.model.node import Node
from dovetail.model.pod import Pod
from dovetail.ports.cluster import Cluster
from dovetail.ports.errors import Conflict

NODE_LABEL = "contract.dovetail/node"
CONTAINER = {"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": {"cpu": "100m"}}}
ROOM = {"cpu": "4", "memory": "16Gi", "pods": "110"}


class Environment(ABC):
    """One case's view of a cluster."""

    cluster: Cluster
    namespace: str  # exists, is ready for pods, and is used by nobody else
    can_expire_history = False  # whether `expire_history` works here

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self._numbers = itertools.count(1)

    @abstractmethod
    async def apply(self, plain: dict[str, Any]) -> None:
        """Create an object of any kind from its manifest."""

    @abstractmethod
    async def submit(self, plain: dict[str, Any]) -> None:
        """Ask whether an object can be created: raises as a creation through the port would. It may or may not stay."""

    async def expire_history(self) -> None:
        """Make every resource version handed out so far too old to watch from."""
        raise NotImplementedError

    def name(self, prefix: str) -> str:
        """A name nobody else uses, cluster-scoped objects included."""
        return f"{self.namespace}-{prefix}-{next(self._numbers)}"

    def key(self, name: str) -> Key:
        """A key in the case's namespace."""
        return Key(self.namespace, name)

    async def eventually(self, predicate: Callable[[], Awaitable[Any]], timeout: float = 30.0) -> Any:  # noqa: ASYNC109 - of the loop's time
        """Ask until the answer is true, and give it."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + timeout
        while not (answer := await predicate()):
            assert loop.time() < ends_at, f"not within {timeout:.0f} s: {predicate}"
            await asyncio.sleep(0.05)
        return answer

    async def retried(self, action: Callable[[], Awaitable[Any]]) -> Any:
        """Repeat a read-then-write until nobody writes in between."""
        while True:
            try:
                return await action()
            except Conflict:
                await asyncio.sleep(0.05)

    async def make_node(self, prefix: str = "node", **parts: Any) -> Node:
        """A simulated node that becomes ready by itself; `labels`, `annotations`, `taints`, `room`, `finalizers`."""
        name = self.name(prefix)
        labels = {NODE_LABEL: name, "kubernetes.io/hostname": name, "kwok.x-k8s.io/node": "fake"}
        room = parts.get("room", ROOM)
        meta = {
            "name": name,
            "labels": {**labels, **parts.get("labels", {})},
            "annotations": {"kwok.x-k8s.io/node": "fake", **parts.get("annotations", {})},
            "finalizers": parts.get("finalizers", []),
        }
        status = {"capacity": room, "allocatable": room}
        spec = {"taints": parts.get("taints", [])}
        await self.apply({"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": spec, "status": status})
        return await self.cluster.get(NODE, Key("", name))

    async def make_ready_node(self, prefix: str = "node", **parts: Any) -> Node:
        """A node that is ready and open to pods."""
        node = await self.make_node(prefix, **parts)

        async def open_to_pods() -> Node | None:
            current = await self.cluster.get(NODE, node.key)
            starting = any(taint.key.startswith("node.kubernetes.io/") for taint in current.spec.taints)
            return current if current.ready and not starting else None

        ready: Node = await self.eventually(open_to_pods)
        return ready

    def pod_spec(self, on: Node | None = None, **spec: Any) -> dict[str, Any]:
        """A small pod; `on` sends it to one node."""
        selector = {"nodeSelector": {NODE_LABEL: on.name}} if on is not None else {}
        return {"containers": [CONTAINER], **selector, **spec}

    async def make_pod(self, on: Node | None = None, **parts: Any) -> Pod:
        """A pod of nobody; `on` sends it to one node; `labels`, `annotations`, `spec`."""
        name = self.name("pod")
        meta = {
            "name": name,
            "namespace": self.namespace,
            "labels": parts.get("labels", {}),
            "annotations": parts.get("annotations", {}),
            "finalizers": parts.get("finalizers", []),
        }
        spec = self.pod_spec(on, **parts.get("spec", {}))
        await self.apply({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
        return await self.cluster.get(POD, self.key(name))

    async def running(self, pod: Pod) -> Pod:
        """The pod, once it runs and is ready."""

        async def up() -> Pod | None:
            current = await self.cluster.get(POD, pod.key)
            return current if current.ready and current.status.phase == "Running" else None

        found: Pod = await self.eventually(up)
        return found

    async def make_deployment(self, replicas: int, on: Node | None = None, **parts: Any) -> str:
        """A Deployment; its pods carry `app: <its name>`."""
        name = self.name("web")
        template = {
            "metadata": {"labels": {"app": name}, "annotations": parts.get("annotations", {})},
            "spec": self.pod_spec(on, **parts.get("spec", {})),
        }
        spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
        meta = {"name": name, "namespace": self.namespace}
        await self.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec})
        return name

    async def make_budget(self, labels: dict[str, str], **spec: Any) -> str:
        """A PodDisruptionBudget over pods with these labels."""
        name = self.name("budget")
        meta = {"name": name, "namespace": self.namespace}
        body = {"selector": {"matchLabels": labels}, **spec}
        await self.apply({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": body})
        return name
