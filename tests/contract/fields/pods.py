"""Pods: containers, plain fields and sizes."""

from contract.fields.documents import container, pod, sized
from contract.fields.table import New, case_of

BIG = {"cpu": "1", "memory": "1Gi"}

CONTAINERS = (
    New("a pod", pod(), ""),
    New("no containers", pod(containers=[]), "Invalid spec.containers"),
    New("containers not written", pod(containers=None), "Invalid spec.containers"),
    New("no spec", {"apiVersion": "v1", "kind": "Pod"}, "Invalid spec.containers"),
    New("a container without a name", pod(containers=[container(name=None)]), "Invalid spec.containers[0].name"),
    New("a container with dots", pod(containers=[container(name="a.b")]), "Invalid spec.containers[0].name"),
    New("a container with capitals", pod(containers=[container(name="Main")]), "Invalid spec.containers[0].name"),
    New("a container of 64 characters", pod(containers=[container(name="a" * 64)]), "Invalid spec.containers[0].name"),
    New("a container without an image", pod(containers=[container(image=None)]), "Invalid spec.containers[0].image"),
    New("an image with a space", pod(containers=[container(image=" a")]), "Invalid spec.containers[0].image"),
    New("two containers of one name", pod(containers=[container(), container()]), "Invalid spec.containers[1].name"),
    New("two containers", pod(containers=[container(), container(name="side")]), ""),
    New("an init container of the same name", pod(initContainers=[container()]), "Invalid spec.initContainers[0].name"),
    New(
        "an init container without a name",
        pod(initContainers=[container(name=None)]),
        "Invalid spec.initContainers[0].name",
    ),
    New("a sidecar", pod(initContainers=[container(name="side", restartPolicy="Always")]), ""),
    New(
        "a sidecar that never restarts",
        pod(initContainers=[container(name="side", restartPolicy="Odd")]),
        "Invalid spec.initContainers[0].restartPolicy",
    ),
    New(
        "a pull policy that is none",
        pod(containers=[container(imagePullPolicy="Maybe")]),
        "Invalid spec.containers[0].imagePullPolicy",
    ),
    New(
        "a port without a number",
        pod(containers=[container(ports=[{}])]),
        "Invalid spec.containers[0].ports[0].containerPort",
    ),
    New(
        "a port above 65535",
        pod(containers=[container(ports=[{"containerPort": 70000}])]),
        "Invalid spec.containers[0].ports[0].containerPort",
    ),
    New("a restart policy that is none", pod(restartPolicy="Maybe"), "Invalid spec.restartPolicy"),
    New("a restart policy", pod(restartPolicy="OnFailure"), ""),
    New("a negative grace period", pod(terminationGracePeriodSeconds=-1), ""),
    New("no grace period", pod(terminationGracePeriodSeconds=0), ""),
    New("a fraction of a grace period", pod(terminationGracePeriodSeconds=1.5), "Invalid"),
    New("a deadline of 0", pod(activeDeadlineSeconds=0), "Invalid spec.activeDeadlineSeconds"),
    New("a deadline", pod(activeDeadlineSeconds=1), ""),
    New("a DNS policy that is none", pod(dnsPolicy="Maybe"), "Invalid spec.dnsPolicy"),
    New("a node name with capitals", pod(nodeName="Node"), "Invalid spec.nodeName"),
    New("a node selector with a bad value", pod(nodeSelector={"a": "b c"}), "Invalid spec.nodeSelector"),
    New("a node selector with a bad key", pod(nodeSelector={"a b": "c"}), "Invalid spec.nodeSelector"),
    New("a priority class that is not there", pod(priorityClassName="absent"), "Forbidden"),
    New("a priority class with capitals", pod(priorityClassName="Absent"), "Forbidden"),
    New("the priority class of the system", pod(priorityClassName="system-node-critical"), ""),
    New("a priority of its own", pod(priority=7), "Forbidden"),
    New("a scheduling gate", pod(schedulingGates=[{"name": "example.com/wait"}]), ""),
    New("a gate twice", pod(schedulingGates=[{"name": "a"}, {"name": "a"}]), "Invalid spec.schedulingGates[1]"),
    New("a gate with a space", pod(schedulingGates=[{"name": "a b"}]), "Invalid spec.schedulingGates[0]"),
    New("a gate and a node", pod(schedulingGates=[{"name": "a"}], nodeName="n"), "Invalid spec.nodeName"),
    New("a preemption policy that is none", pod(preemptionPolicy="Maybe"), "Forbidden"),
    New("a volume without a name", pod(volumes=[{"emptyDir": {}}]), "Invalid spec.volumes[0].name"),
    New("a volume without a source", pod(volumes=[{"name": "a"}]), ""),
    New("two volumes of one name", pod(volumes=[{"name": "a", "emptyDir": {}}] * 2), "Invalid spec.volumes[1].name"),
    New(
        "a claim without a name",
        pod(volumes=[{"name": "a", "persistentVolumeClaim": {}}]),
        "Invalid spec.volumes[0].persistentVolumeClaim.claimName",
    ),
    New(
        "a mount of no volume",
        pod(containers=[container(volumeMounts=[{"name": "a", "mountPath": "/a"}])]),
        "Invalid spec.containers[0].volumeMounts[0].name",
    ),
    New("a bad host name", pod(hostname="a.b"), "Invalid spec.hostname"),
    New("overhead without a runtime class", pod(overhead={"cpu": "1"}), "Forbidden"),
    New("an unknown field of a pod", pod(colour="red"), ""),
)
SIZES = (
    New("requests below limits", sized({"cpu": "1"}, {"cpu": "2"}), ""),
    New("requests above limits", sized({"cpu": "2"}, {"cpu": "1"}), "Invalid spec.containers[0].resources.requests"),
    New(
        "both above limits", sized({"cpu": "2", "memory": "2Gi"}, BIG), "Invalid spec.containers[0].resources.requests"
    ),
    New("the same amount written twice", sized({"cpu": "1000m"}, {"cpu": "1"}), ""),
    New("a negative request", sized({"cpu": "-1"}), "Invalid spec.containers[0].resources.requests[cpu]"),
    New(
        "a negative limit",
        sized(limits={"memory": "-1"}),
        "Invalid spec.containers[0].resources.limits[memory] spec.containers[0].resources.requests[memory]",
    ),
    New("an amount that is none", sized({"cpu": "much"}), "Invalid"),
    New("a number as amount", sized({"cpu": 1}), ""),
    New("nothing requested", sized({"cpu": "0"}), ""),
    New("finer than a thousandth", sized({"cpu": "1u"}), ""),
    New("a fraction of a byte", sized({"memory": "500m"}), ""),
    New("a resource without a domain", sized({"gpu": "1"}), "Invalid spec.containers[0].resources.requests[gpu]"),
    New("an extended resource", sized({"example.com/gpu": "1"}, {"example.com/gpu": "1"}), ""),
    New(
        "an extended resource without a limit",
        sized({"example.com/gpu": "1"}),
        "Invalid spec.containers[0].resources.limits",
    ),
    New("an extended resource as limit alone", sized(limits={"example.com/gpu": "1"}), ""),
    New(
        "half an extended resource",
        sized({"example.com/gpu": "500m"}, {"example.com/gpu": "500m"}),
        "Invalid "
        + " ".join(f"spec.containers[0].resources.{each}[example.com/gpu]" for each in ("limits", "requests")),
    ),
    New(
        "more of it requested than the limit",
        sized({"example.com/gpu": "1"}, {"example.com/gpu": "2"}),
        "Invalid spec.containers[0].resources.requests",
    ),
    New(
        "huge pages without a limit",
        sized({"hugepages-2Mi": "2Mi", **BIG}),
        "Invalid spec.containers[0].resources.limits",
    ),
    New(
        "huge pages alone",
        sized({"hugepages-2Mi": "2Mi"}, {"hugepages-2Mi": "2Mi"}),
        "Invalid spec.containers[0].resources",
    ),
    New("huge pages with memory", sized({"hugepages-2Mi": "2Mi", **BIG}, {"hugepages-2Mi": "2Mi", **BIG}), ""),
    New("temporary storage", sized({"ephemeral-storage": "1Gi"}), ""),
    New(
        "pods as a resource of a container", sized({"pods": "1"}), "Invalid spec.containers[0].resources.requests[pods]"
    ),
    New(
        "attachable volumes",
        sized({"attachable-volumes-csi-a": "1"}),
        "Invalid spec.containers[0].resources.requests[attachable-volumes-csi-a]",
    ),
    New(
        "a resource with a bad name",
        sized({"example.com/a b": "1"}),
        "Invalid spec.containers[0].resources.limits spec.containers[0].resources.requests[example.com/a b]",
    ),
    New(
        "a bad size of an init container",
        pod(initContainers=[container(name="i", resources={"requests": {"cpu": "-1"}})]),
        "Invalid spec.initContainers[0].resources.requests[cpu]",
    ),
    New("a size of the whole pod", pod(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}), ""),
    New(
        "a whole pod above its limit",
        pod(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
        "Invalid spec.resources.requests",
    ),
    New(
        "an extended resource of the whole pod",
        pod(resources={"requests": {"example.com/gpu": "1"}}),
        "Invalid spec.resources.limits spec.resources.requests[example.com/gpu]",
    ),
    New(
        "a whole pod smaller than its containers",
        pod(resources={"requests": {"cpu": "1"}}, containers=[container(resources={"requests": {"cpu": "2"}})]),
        "Invalid spec.resources.requests[cpu]",
    ),
)
CASES = (
    case_of("containers_and_plain_fields_of_pods_are_checked", CONTAINERS),
    case_of("sizes_of_pods_are_checked", SIZES),
)
