"""The page for people whom a real API server knows: two service accounts, one of which may look."""

import json
import os
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import yaml

from browser.serving import free_port, serving
from e2e.controlplane.api import eventually
from e2e.controlplane.kubeconfig import write_kubeconfig

pytestmark = pytest.mark.once("who may see the page is decided by the API server")

DEPLOY = Path(__file__).parents[2] / "deploy"
KEPT = {"Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Service"}
SOON = 90.0  # seconds; a yes of the API server holds for half a minute


@pytest.fixture
def deployed(prepared, tmp_path):
    """What the component adds to the base, on the cluster but for the pods; and the container as it would run."""
    overlay = tmp_path / "overlay"
    overlay.mkdir()
    place = Path(os.path.relpath(DEPLOY, overlay))
    made = {"resources": [str(place / "base")], "components": [str(place / "overlays" / "page")]}
    (overlay / "kustomization.yaml").write_text(yaml.safe_dump(made))
    documents = list(yaml.safe_load_all(prepared.kustomize(overlay)))
    kept = {"apiVersion": "v1", "kind": "List", "items": [each for each in documents if each["kind"] in KEPT]}
    prepared.kubectl("apply", "--server-side", "-f", "-", input=json.dumps(kept))
    eventually(lambda: prepared.has_service_account("dovetail"), "the namespace is ready")
    deployment = next(each for each in documents if each["kind"] == "Deployment")
    yield prepared, deployment["spec"]["template"]["spec"]["containers"][0]
    prepared.kubectl("delete", "--wait=true", "--ignore-not-found", "-f", "-", input=json.dumps(kept))


def ask(address, path, token="", cookie=""):
    """Status, body and headers."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    headers |= {"Cookie": cookie} if cookie else {}
    try:
        request = urllib.request.Request(address + path, headers=headers)  # noqa: S310 - our own page
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - our own page
            return answer.status, answer.read().decode(), answer.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode(), error.headers


def test_whoever_may_list_nodes_and_pods_may_look_and_nobody_else(deployed, namespace, tmp_path):
    cluster, container = deployed
    own = cluster.service_account_token("dovetail", "dovetail")
    access = write_kubeconfig(tmp_path / "config", cluster.url, cluster.ca_file, {"token": own})
    dana, eve = (cluster.service_account_token(namespace, name) for name in ("dana", "eve"))
    cluster.kubectl(
        "create",
        "clusterrolebinding",
        f"dana-{namespace}",
        "--clusterrole=dovetail-looking",
        f"--serviceaccount={namespace}:dana",
    )
    set_by_component = {each["name"]: each.get("value") for each in container["env"]}
    assert set_by_component["DOVETAIL_DASHBOARD_ADDRESS"] == "0.0.0.0"  # noqa: S104 - not listened on here
    auth = set_by_component["DOVETAIL_DASHBOARD_AUTH"]
    look = ["dashboard", "--kubeconfig", access, "--dashboard-port", free_port(), "--dashboard-auth", auth]
    try:
        with serving(tmp_path, *look) as address:
            eventually(lambda: ask(address, "api/cluster", dana)[0] == 200, "dana is let in", within=SOON)
            eventually(lambda: ask(address, "api/plan", dana)[0] == 200, "the cluster is read", within=SOON)
            status, said, headers = ask(address, "api/session", dana)
            assert (status, dana in str(headers)) == (200, False)
            cookie = headers["Set-Cookie"].partition(";")[0]
            assert ask(address, "api/plan", cookie=cookie)[0] == 200
            status, said, _ = ask(address, "api/plan", eve)
            assert status == 403
            assert f"system:serviceaccount:{namespace}:eve, who may not list nodes and list pods" in said
            assert ask(address, "api/plan")[0] == ask(address, "api/plan", eve[:-4] + "aaaa")[0] == 401
            assert "kubectl create token" in ask(address, "")[1]

            cluster.kubectl("delete", "clusterrolebinding", f"dana-{namespace}")
            eventually(lambda: ask(address, "api/plan", cookie=cookie)[0] == 403, "dana may no longer", within=SOON)
            cluster.kubectl("delete", "serviceaccount", "dana", "-n", namespace)
            eventually(lambda: ask(address, "api/plan", cookie=cookie)[0] == 401, "nobody knows dana", within=SOON)

            cluster.kubectl("delete", "clusterrolebinding", "dovetail-reviewing")
            eventually(lambda: ask(address, "api/plan", eve)[0] == 503, "nobody can be asked", within=SOON)
            assert "cannot review the token" in ask(address, "api/plan", eve)[1]
    finally:
        cluster.kubectl("delete", "clusterrolebinding", "--ignore-not-found", f"dana-{namespace}")
