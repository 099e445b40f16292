"""A whole Kubernetes control plane on loopback: etcd, API server, controller manager, scheduler, KWOK for the kubelets.

Everything lives in one directory and ends with the session. Real programs, real TLS and RBAC; only the machines are
simulated.
"""

import os
import secrets
import shutil
import signal
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from e2e.components import build
from e2e.controlplane import commands
from e2e.controlplane.api import Api, eventually
from e2e.controlplane.certificates import Authority, write_service_account_key
from e2e.controlplane.kubeconfig import certificate_user, write_kubeconfig
from e2e.controlplane.ports import Ports
from e2e.controlplane.process import Process

# The users known by token: name, groups. RBAC grants the two components their roles at start-up.
_USERS = {
    "admin": "system:masters",
    "system:kube-controller-manager": "",
    "system:kube-scheduler": "",
    "kwok": "system:masters",
}
START_WITHIN = 60.0


class ControlPlane:
    """One control plane. Use as a context manager, or `start` and `stop`."""

    def __init__(self, directory: Path, binaries: Path | None = None, min_request_timeout: int = 1800) -> None:
        """`min_request_timeout`: the server ends a watch after one to two times as many seconds."""
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self._binaries = binaries or build.binaries_dir()
        self._min_request_timeout = min_request_timeout
        self._tokens = {user: secrets.token_hex(16) for user in _USERS}
        self._held = ExitStack()
        self._layout = self._prepare()
        self.url = f"https://{commands.LOOPBACK}:{self._layout.ports.apiserver}"
        self.ca_file = self._layout.ca_file
        self.token = self._tokens["admin"]
        self.kubeconfig = self.token_kubeconfig("admin", self.token)
        self.client_cert_kubeconfig = self._certificate_kubeconfig()
        self.api = self.api_as(self.token)
        self._processes = {name: self._process(name, argv) for name, argv in self._arguments().items()}

    def start(self) -> Self:
        """Start everything and wait until all of it works. On failure, stop and show the ends of the logs."""
        try:
            self._processes["etcd"].start()
            self._processes["kube-apiserver"].start()
            self._await_apiserver()
            for name in ("kube-controller-manager", "kube-scheduler", "kwok"):
                self._processes[name].start()
            ports = self._layout.ports
            self._await("kube-scheduler", lambda: _healthy(f"https://{commands.LOOPBACK}:{ports.scheduler}/healthz"))
            self._await("kwok", lambda: _healthy(f"http://{commands.LOOPBACK}:{ports.kwok}/healthz"))
            self._await("kube-controller-manager", lambda: self.has_service_account("default"))
        except BaseException as failure:
            failure.add_note(self.log_tails())
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Ask all to end, then insist; forget the data and keep the logs."""
        for process in reversed(self._processes.values()):
            process.terminate()
        deadline = time.monotonic() + 5
        for process in reversed(self._processes.values()):
            process.stop(grace=max(0.1, deadline - time.monotonic()))
        self._held.close()
        shutil.rmtree(self._layout.etcd_data, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def restart_apiserver(self) -> None:
        """Kill the API server and start it on the same data. A watch from an older version then gets 410 Gone."""
        apiserver = self._processes["kube-apiserver"]
        apiserver.kill()
        apiserver.start()
        self._await_apiserver()
        self._await("kube-apiserver", self._serves_custom_resources)

    def stop_component(self, name: str) -> None:
        """End one component, such as `kwok`, for a test of life without it."""
        self._processes[name].stop()

    def start_component(self, name: str) -> None:
        """Start a component that was stopped."""
        self._processes[name].start()

    def signal_component(self, name: str, number: signal.Signals) -> None:
        """Send a component a signal, such as SIGSTOP to `etcd` for a store that hangs."""
        os.kill(self._processes[name].pid, number)

    def kubectl(self, *args: str, input: str | None = None) -> str:  # noqa: A002 - as subprocess spells it
        """Run kubectl as admin and answer what it prints; a failure shows what it complained of."""
        done = subprocess.run(
            [str(self._binaries / "kubectl"), f"--kubeconfig={self.kubeconfig}", *args],
            input=input,
            capture_output=True,
            text=True,
            env=self._environment(),
            check=False,
        )
        assert done.returncode == 0, f"kubectl {' '.join(args)}: {done.stderr.strip()}"
        return done.stdout

    def api_as(self, token: str | None) -> Api:
        """A plain HTTP client for the holder of a token, or for nobody in particular."""
        return Api(self.url, self.ca_file, token)

    def token_kubeconfig(self, name: str, token: str) -> Path:
        """Write a kubeconfig for the holder of a token."""
        path = self.directory / f"{name.replace(':', '-')}.kubeconfig"
        return write_kubeconfig(path, self.url, self.ca_file, {"token": token})

    def service_account_token(self, namespace: str, name: str, seconds: int = 3600) -> str:
        """A token for a service account, which is created if need be; it may do only what RBAC grants it."""
        accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        if not self.api.get(f"{accounts}/{name}").ok:
            self.api.post(accounts, {"metadata": {"name": name}}).expect()
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": seconds},
        }
        token: str = self.api.post(f"{accounts}/{name}/token", request).expect()["status"]["token"]
        return token

    @property
    def audit_log(self) -> Path:
        """What service accounts of the namespace `dovetail` asked of the API server, one request a line."""
        return self._layout.audit_log

    def kustomize(self, directory: Path) -> str:
        """What kubectl makes of a kustomization."""
        argv = [str(self._binaries / "kubectl"), "kustomize", str(directory)]
        done = subprocess.run(argv, capture_output=True, text=True, env=self._environment(), check=False)
        assert done.returncode == 0, done.stderr.strip()
        return done.stdout

    def has_service_account(self, namespace: str) -> bool:
        """Whether pods can be created in a namespace: admission wants its default service account."""
        return self.api.get(f"/api/v1/namespaces/{namespace}/serviceaccounts/default").ok

    def create_namespace(self, name: str) -> str:
        """Create a namespace and wait until pods can be created in it."""
        self.api.post("/api/v1/namespaces", {"metadata": {"name": name}}).expect()
        eventually(lambda: self.has_service_account(name), f"namespace {name} has its default service account")
        return name

    def launch(self, name: str, *argv: str, env: dict[str, str] | None = None) -> Process:
        """Run a program of the test's own beside the components, with the same care; the caller stops it."""
        return Process(name, argv, self.directory / f"{name}.log", env).start()

    def log_tails(self, lines: int = 20) -> str:
        """The end of every component's log, for the report of a failure."""
        parts = [
            f"--- {process.name} (exit code {process.exit_code}), {process.log}\n{process.tail(lines)}"
            for process in self._processes.values()
        ]
        return "\n".join(parts)

    def _prepare(self) -> commands.Layout:
        authority = Authority(self.directory)
        key = self.directory / "service-account.key"
        write_service_account_key(key)
        self._client_certificate = authority.issue_client("certified-admin", "system:masters")
        tokens = self.directory / "tokens.csv"
        rows = [f'{self._tokens[user]},{user},{user},"{groups}"\n' for user, groups in _USERS.items()]
        tokens.write_text("".join(rows))
        return commands.Layout(
            directory=self.directory,
            ports=Ports.reserve(self._held),
            ca_file=authority.file,
            serving=authority.issue_server("kube-apiserver", ["localhost", "kubernetes.default.svc"]),
            service_account_key=key,
            tokens=tokens,
        )

    def _certificate_kubeconfig(self) -> Path:
        path = self.directory / "certified-admin.kubeconfig"
        return write_kubeconfig(path, self.url, self.ca_file, certificate_user(self._client_certificate))

    def _arguments(self) -> dict[str, list[str]]:
        config = {user: self.token_kubeconfig(user, token) for user, token in self._tokens.items()}
        layout = self._layout
        return {
            "etcd": commands.etcd(layout),
            "kube-apiserver": commands.apiserver(layout, self._min_request_timeout),
            "kube-controller-manager": commands.controller_manager(layout, config["system:kube-controller-manager"]),
            "kube-scheduler": commands.scheduler(layout, config["system:kube-scheduler"]),
            "kwok": commands.kwok(layout, config["kwok"]),
        }

    def _process(self, name: str, arguments: list[str]) -> Process:
        argv = [str(self._binaries / name), *arguments]
        return Process(name, argv, self.directory / f"{name}.log", self._environment())

    def _environment(self) -> dict[str, str]:
        """A home of their own: none of the programs reads or writes the developer's."""
        return {"HOME": str(self.directory), "PATH": os.environ.get("PATH", "")}

    def _await_apiserver(self) -> None:
        self._await("kube-apiserver", lambda: self.api.get("/readyz").ok)

    def _serves_custom_resources(self) -> bool:
        """For a moment after it says it is ready, the server answers 429 where custom resources are."""
        return all(
            self.api.get(f"/apis/{crd['spec']['group']}/{version['name']}/{crd['spec']['names']['plural']}").ok
            for crd in self.api.items("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
            for version in crd["spec"]["versions"]
            if version["served"]
        )

    def _await(self, name: str, ready: Callable[[], bool]) -> None:
        def probe() -> bool:
            for process in self._processes.values():
                if process.exit_code is not None:
                    raise RuntimeError(f"{process.name} ended with exit code {process.exit_code}")
            return ready()

        eventually(probe, f"{name} is ready", within=START_WITHIN)


def _healthy(url: str) -> bool:
    """Whether a component's own health page says so; its certificate is self-made and not checked."""
    trust = ssl._create_unverified_context() if url.startswith("https") else None  # noqa: S323 - loopback
    try:
        with urllib.request.urlopen(url, context=trust, timeout=5) as reply:  # noqa: S310 - loopback
            return bool(reply.status == 200)
    except urllib.error.HTTPError as refusal:
        refusal.close()  # it holds the connection
        return False
