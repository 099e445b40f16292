"""`dovetail adopt` from outside: on a file, and on an API server that fails every write."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from typer.testing import CliRunner

from acceptance.fleet import cluster, free, running, worker
from dovetail.cli.app import app
from dovetail.manifest.codec import to_plain
from dovetail.manifest.snapshot_file import snapshot_bytes
from dovetail.model.snapshot_builder import INVENTORY, snapshot_objects
from dovetail.settings import Settings
from dovetail.wiring.adoption_karpenter import container_variables, decision_settings

OWN_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
OTHER_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
REVIEWS = {OWN_REVIEWS, OTHER_REVIEWS}
BINDING = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/dovetail-acting"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/karpenter-leader-election"
ACCOUNT = "/api/v1/namespaces/kube-system/serviceaccounts/karpenter"
KARPENTER = {
    "metadata": {"namespace": "kube-system", "name": "karpenter"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app.kubernetes.io/name": "karpenter"}},
        "template": {
            "spec": {
                "serviceAccountName": "karpenter",
                "containers": [
                    {
                        "name": "controller",
                        "image": "public.ecr.aws/karpenter/controller:1.14.1",
                        "args": ["--log-level=debug"],
                        "env": [
                            {"name": "CLUSTER_NAME", "value": "demo"},
                            {"name": "LOG_LEVEL", "value": "info"},
                            {"name": "FEATURE_GATES", "value": "NodeOverlay=true"},
                            {"name": "MEMORY_LIMIT", "valueFrom": {"resourceFieldRef": {}}},
                            {"name": "INTERRUPTION_QUEUE", "valueFrom": {"configMapKeyRef": {}}},
                        ],
                    }
                ],
            }
        },
    },
}
NODE_POOL_CRD = {
    "metadata": {
        "name": "nodepools.karpenter.sh",
        "annotations": {"controller-gen.kubebuilder.io/version": "v0.20.0"},
    },
    "spec": {
        "names": {"kind": "NodePool"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"properties": {"spec": {"properties": {"template": {}, "limits": {}}}}}},
            }
        ],
    },
}


def adopt(*arguments, **variables):
    environment = {"KUBECONFIG": "", "KUBERNETES_SERVICE_HOST": "", "HOME": "/nonexistent", **variables}
    return CliRunner().invoke(app, ["adopt", *map(str, arguments)], env=environment)


class ReadOnlyServer:
    """An API server with these collections and objects by path; it fails writes and remembers them."""

    def __init__(self, collections, objects, lacking=()):
        self.collections, self.objects, self.lacking = collections, objects, lacking
        self.denied, self.writes = set(), []
        self.lacking_in_run, self.subjects = (), set()

    def answer(self, method, path, body):
        if method == "POST" and path in REVIEWS and path not in self.denied:
            asked = body["spec"]["resourceAttributes"]
            self.subjects.add(body["spec"].get("user", "this account"))
            lacking = self.lacking if "user" not in body["spec"] else self.lacking_in_run
            return 201, {"status": {"allowed": asked["resource"] not in lacking}}
        if method != "GET" and path not in REVIEWS:
            self.writes.append((method, path))
            return 403, {"kind": "Status", "code": 403, "message": "this server is read-only"}
        if path in self.denied:
            return 403, {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "you may not"}
        if path in self.objects:
            return 200, self.objects[path]
        if path in self.collections:
            kind, version, items = self.collections[path]
            return 200, {
                "kind": f"{kind}List",
                "apiVersion": version,
                "metadata": {"resourceVersion": "1"},
                "items": items,
            }
        return 404, {"kind": "Status", "code": 404, "reason": "NotFound", "message": "there is no such thing"}

    @contextmanager
    def serving(self):
        server = self

        class Answer(BaseHTTPRequestHandler):
            def respond(self):
                length = int(self.headers.get("Content-Length") or 0)
                sent = json.loads(self.rfile.read(length)) if length else None
                assert "watch" not in parse_qs(urlsplit(self.path).query)
                code, body = server.answer(self.command, urlsplit(self.path).path, sent)
                data = json.dumps(body).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = respond  # noqa: N815 - the names of http.server

            def log_message(self, *_):
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as listening:
            thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            try:
                yield f"http://127.0.0.1:{listening.server_port}"
            finally:
                listening.shutdown()
                thread.join()


def collections_of(found):
    """The lists of a snapshot's objects by path."""
    objects, lists = snapshot_objects(found), {}
    for kind in INVENTORY:
        root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
        items = [to_plain(kind, each) for each in objects.of(kind)]
        lists[f"{root}/{kind.plural}"] = (kind.name, kind.api_version, items)
    return lists


def beside_karpenter(found=None, lacking=()):
    """A server with a running Karpenter."""
    lists = collections_of(found or quiet())
    lists["/apis/apps/v1/deployments"] = ("Deployment", "apps/v1", [KARPENTER])
    lists["/api/v1/namespaces/default/configmaps"] = ("ConfigMap", "v1", [])
    lists["/api/v1/events"] = ("Event", "v1", [])
    lists["/apis/apiextensions.k8s.io/v1/customresourcedefinitions"] = (
        "CustomResourceDefinition",
        "v1",
        [NODE_POOL_CRD],
    )
    spec = {"holderIdentity": "karpenter-5d_1", "renewTime": "2100-01-01T00:00:00.000000Z", "leaseDurationSeconds": 15}
    lease = {"metadata": {"namespace": "kube-system", "name": "karpenter-leader-election"}, "spec": spec}
    account = {"metadata": {"name": "karpenter", "annotations": {}}}
    return ReadOnlyServer(lists, {LEASE: lease, ACCOUNT: account}, lacking)


def quiet():
    return cluster(worker("a", running("x", "a")), pools=[free(consolidationPolicy="WhenEmpty")])


@pytest.fixture
def kubeconfig(tmp_path):
    def to_file(server):
        path = tmp_path / "kubeconfig"
        clusters = [{"name": "c", "cluster": {"server": server}}]
        contexts = [{"name": "c", "context": {"cluster": "c", "user": "u"}}]
        users = [{"name": "u", "user": {"token": "secret"}}]
        written = {"current-context": "c", "clusters": clusters, "contexts": contexts, "users": users}
        path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **written}))
        return path

    return to_file


@pytest.fixture
def reported(kubeconfig):
    def on(server, *arguments):
        with server.serving() as url:
            result = adopt("--kubeconfig", kubeconfig(url), *arguments)
        assert server.writes == []
        return result

    return on


@pytest.fixture
def file(tmp_path):
    def written(found):
        path = tmp_path / "cluster.json"
        path.write_bytes(snapshot_bytes(found))
        return path

    return written


def messages(document, level):
    return [each["message"] for each in document["findings"] if each["level"] == level]


def test_a_running_karpenter_is_reported_without_a_single_write(reported):
    result = reported(beside_karpenter(), "-o", "json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["ready"] is True
    assert document["karpenter"]["deployment"] == "karpenter"
    fine = messages(document, "ok")
    assert "kube-system/karpenter-leader-election is held by karpenter-5d_1" in fine
    assert any("permissions that the steps need" in each for each in fine)
    assert any("is Karpenter's; drops Dovetail's fields" in each for each in messages(document, "note"))
    assert any(each.startswith("INTERRUPTION_QUEUE:") for each in messages(document, "not checked"))
    commands = [each for step in document["switch"] for each in step["commands"]]
    assert "kubectl -n kube-system scale deployment karpenter --replicas=0" in commands
    assert any("CLUSTER_NAME=demo" in each and "LOG_LEVEL=debug" in each for each in commands), "a flag wins"


def test_the_verdict_comes_first_and_lines_are_short(reported):
    overlays = ("NodeOverlay", "karpenter.sh/v1alpha1", [{"metadata": {"name": "cheap"}}])
    server = beside_karpenter(lacking={"clusterroles"})
    server.collections["/apis/karpenter.sh/v1alpha1/nodeoverlays"] = overlays
    result = reported(server)
    assert result.exit_code == 1, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "Ready to switch: no, 1 thing to fix (2 not checked, see below)"
    assert any("NodeOverlay cheap: not supported" in line for line in lines)
    commands = ("kubectl", "dovetail", "aws", "sed")
    assert [line for line in lines if len(line) > 80 and not line.strip().startswith(commands)] == []


def test_without_karpenter_there_is_nothing_to_switch_and_no_step_to_take(reported):
    server = beside_karpenter()
    server.collections["/apis/apps/v1/deployments"] = ("Deployment", "apps/v1", [])
    server.collections["/apis/coordination.k8s.io/v1/leases"] = ("Lease", "coordination.k8s.io/v1", [])
    result = reported(server)
    assert result.exit_code == 1, result.output
    assert "there is nothing to switch from" in " ".join(result.stdout.split())
    assert "kubectl" not in result.stdout, "commands with guessed names would start a second controller"


def test_a_cluster_without_nodepools_has_no_first_hour(reported):
    server = beside_karpenter()
    server.collections["/apis/karpenter.sh/v1/nodepools"] = ("NodePool", "karpenter.sh/v1", [])
    for path in ("/apis/karpenter.sh/v1/nodeclaims", "/api/v1/nodes"):
        server.collections[path] = (*server.collections[path][:2], [])
    result = reported(server)
    assert result.exit_code == 0, result.output
    assert "First hour: because there is no NodePool." in result.stdout


def test_decisions_follow_the_variables_of_karpenter():
    """Its Deployment's, as Dovetail gets them at the switch; the name of the cluster may be given, too."""
    theirs = {
        "FEATURE_GATES": "SpotToSpotConsolidation=true",
        "VM_MEMORY_OVERHEAD_PERCENT": "0.2",
        "LOG_LEVEL": "debug",
    }
    found = decision_settings(Settings(), {**theirs, "RESERVED_ENIS": "2", "CLUSTER_NAME": "demo"})
    assert (found.options.spot_to_spot, found.vm_memory_overhead_percent, found.reserved_enis) == (True, 0.2, 2)
    assert (found.cluster_name, found.log_level) == ("demo", Settings().log_level)
    assert decision_settings(Settings(cluster_name="mine"), {"CLUSTER_NAME": "demo"}).cluster_name == "mine"


def test_flags_are_read_as_go_reads_them():
    container = {
        "env": [{"name": "CLUSTER_NAME", "value": "old"}, {"name": "LOG_LEVEL", "valueFrom": {}}],
        "command": ["/karpenter", "--cluster-name", "demo"],
        "args": [
            "-log-level=debug",
            "--isolated-vpc",
            "--interruption-queue=",
            "--enable-profiling",
            "--reserved-enis",
        ],
    }
    assert container_variables(container) == {
        "CLUSTER_NAME": "demo",
        "LOG_LEVEL": "debug",
        "ISOLATED_VPC": "true",
        "INTERRUPTION_QUEUE": "",
        "ENABLE_PROFILING": "true",
        "RESERVED_ENIS": "true",
    }
    assert container_variables({"args": ["--isolated-vpc", "stray"]}) == {"ISOLATED_VPC": "true"}
    assert container_variables({}) == {}


def test_what_may_not_be_read_is_not_checked_and_never_taken_for_absent(reported):
    server = beside_karpenter()
    server.denied = {"/apis/apps/v1/deployments", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"}
    document = json.loads(reported(server, "-o", "json").stdout)
    unchecked = {each["area"] for each in document["findings"] if each["level"] == "not checked"}
    assert {"Karpenter", "CRDs"} <= {name for each in unchecked for name in each.split(", ")}
    assert document["karpenter"] is None


def test_a_read_only_account_gets_a_yes_and_is_told_what_it_cannot_do(reported):
    server = beside_karpenter(lacking={"clusterroles", "deployments"})
    result = reported(server, "-o", "json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert any("it can run adopt, but not take the steps" in each for each in messages(document, "note"))
    assert "patch clusterroles.rbac.authorization.k8s.io" in document["missingPermissions"]["thisAccount"]
    assert document["missingPermissions"]["dovetailRun"] is None
    assert "because its roles are not bound yet: step 2 does it; run adopt again after that step" in messages(
        document, "not checked"
    )
    assert server.subjects == {"this account"}


def test_the_service_account_is_asked_about_once_its_roles_are_bound(reported):
    server = beside_karpenter()
    server.objects[BINDING] = {"metadata": {"name": "dovetail-acting"}}
    document = json.loads(reported(server, "-o", "json").stdout)
    assert document["missingPermissions"] == {"thisAccount": [], "dovetailRun": []}
    assert server.subjects == {"this account", "system:serviceaccount:dovetail:dovetail"}
    server.lacking_in_run = {"nodeclaims"}
    result = reported(server, "-o", "json")
    assert result.exit_code == 1
    assert "delete nodeclaims.karpenter.sh" in json.loads(result.stdout)["missingPermissions"]["dovetailRun"]


def test_who_may_not_ask_about_the_service_account_is_told_so(reported):
    server = beside_karpenter()
    server.objects[BINDING] = {"metadata": {"name": "dovetail-acting"}}
    server.denied = {OTHER_REVIEWS}
    result = reported(server, "-o", "json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    (why,) = [each["message"] for each in document["findings"] if each["area"] == "RBAC of dovetail run"]
    assert why.startswith("because this account may not ask about others")


def test_an_api_server_that_does_not_answer_is_exit_code_2(kubeconfig):
    result = adopt("--kubeconfig", kubeconfig("http://127.0.0.1:1"))
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: ")


def test_the_first_hour_and_the_marks_have_money(file):
    found = cluster(
        worker("empty"), worker("busy", running("x", "busy")), pools=[free(consolidationPolicy="WhenEmpty")]
    )
    result = adopt("--snapshot", file(found), "-o", "json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    off, on = document["firstHour"]
    assert (off["disruption"], off["nodesRemoved"], off["costPerHourAfter"]) == ("off", 0, 2.0)
    assert (on["disruption"], on["nodesRemoved"], on["costPerHourBefore"], on["costPerHourAfter"]) == (
        "on",
        1,
        2.0,
        1.0,
    )
    (marks,) = document["marks"]
    assert (marks["nodes"], marks["costPerHour"], marks["removedCostPerHour"]) == (2, 2.0, 1.0)


def test_what_moves_and_what_it_costs_comes_below_the_verdict(file):
    found = cluster(
        worker("empty"), worker("busy", running("x", "busy")), pools=[free(consolidationPolicy="WhenEmpty")]
    )
    assert adopt("--snapshot", file(found)).stdout.splitlines()[1:4] == [
        "By default, the first hour launches, removes and evicts nothing ($2.00 an hour).",
        "With disruption on, the first hour launches 0 nodes, removes 1, and evicts 0",
        "  pods ($2.00 -> $1.00 an hour).",
    ]


def test_a_snapshot_says_what_it_does_not_have(file):
    result = adopt("--snapshot", file(quiet()))
    assert result.exit_code == 0, result.output
    assert (
        result.stdout.splitlines()[0]
        == "Ready to switch: yes, as far as it could be checked (8 not checked, see below)"
    )
    assert "Lease, RBAC: because a snapshot does not have it" in " ".join(result.stdout.split()), "no AWS, no IAM"
    assert "with the names of Karpenter's Helm chart" in result.stdout
    assert "is that of Karpenter's Drifted condition" in " ".join(result.stdout.split())


def test_nodes_without_a_price_are_counted(file):
    result = adopt("--snapshot", file(cluster(worker("odd", running("x", "odd"), type_="m.unknown"))))
    assert "The prices of 1 node are unknown: the cost above is without them." in " ".join(result.stdout.split())
    assert "($0.00 an hour, without 1 node of unknown price)" in " ".join(result.stdout.split())
