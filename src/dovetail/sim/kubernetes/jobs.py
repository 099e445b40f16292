"""Jobs: pods that run to their end, so many at a time, until enough have succeeded."""

from dovetail.model.kube_object import Key
from dovetail.ports.cluster import Patch
from dovetail.sim.kubernetes.controller import SimulatedController
from dovetail.sim.kubernetes.deployments import pod_from
from dovetail.sim.kubernetes.kinds import JOBS, POD
from dovetail.sim.kubernetes.store import ObjectVersion, StoreChange


class Jobs(SimulatedController[Key]):
    """Keeps the pods of each Job going until it is complete."""

    hears = (JOBS, POD)

    def hear(self, step: StoreChange) -> None:
        """A Job changed, or one of its pods did."""
        if step.after.resource == JOBS:
            self.touch(step.after.key)
        elif (owner := step.after.controller) is not None and owner["kind"] == "Job":
            self.touch(Key(step.after.key.namespace, owner["name"]))

    def reconcile(self, key: Key) -> None:
        """Start what is missing, then report."""
        record = self.store.find(JOBS, key)
        if record is None or record.deleting or (record.plain.get("status") or {}).get("completionTime"):
            return
        spec = record.plain["spec"]
        pods = [pod for pod in self.store.owned_by(record.uid) if pod.resource == POD]
        succeeded = sum(pod.plain["status"].get("phase") == "Succeeded" for pod in pods)
        active = [pod for pod in pods if pod.active]
        parallelism = int(spec.get("parallelism", 1))
        completions = int(spec.get("completions", parallelism))
        for _ in range(min(parallelism, completions - succeeded) - len(active)):
            self.api.create(POD, pod_from(record, spec["template"]))
        self._report(record, succeeded, done=succeeded >= completions)

    def _report(self, record: ObjectVersion, succeeded: int, *, done: bool) -> None:
        pods = [pod for pod in self.store.owned_by(record.uid) if pod.resource == POD and pod.active]
        status: dict[str, object] = {
            "active": len(pods),
            "ready": sum(pod.ready for pod in pods),
            "succeeded": succeeded,
        }
        if done:
            now = self.api.timestamp()
            status["completionTime"] = now
            status["conditions"] = [{"type": "Complete", "status": "True", "lastTransitionTime": now}]
        self.api.patch(JOBS, record.key, Patch({"status": status}, subresource="status"))
