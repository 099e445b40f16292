"""The command line of every component: what of a production control plane is kept, and what is traded for speed.

Kept: TLS, RBAC, service account tokens, admission, leases. Traded: etcd does not wait for the disk, nobody elects a
leader among one, and a node without heartbeats stays trusted for a day.
"""

import dataclasses
import json
from pathlib import Path

from e2e.controlplane.certificates import KeyPair
from e2e.controlplane.ports import LOOPBACK, Ports

STAGES = Path(__file__).with_name("stages.yaml")


AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "userGroups": ["system:serviceaccounts:dovetail"]}, {"level": "None"}],
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where everything of one control plane is found."""

    directory: Path
    ports: Ports
    ca_file: Path
    serving: KeyPair
    service_account_key: Path
    tokens: Path

    @property
    def audit_log(self) -> Path:
        """What service accounts of the namespace `dovetail` asked of the API server, one request a line."""
        return self.directory / "audit.log"

    @property
    def etcd_data(self) -> Path:
        """The store, the only part of the directory that grows."""
        return self.directory / "etcd"


def etcd(layout: Layout) -> list[str]:
    """One member; the short heartbeat makes its election instant."""
    client = f"http://{LOOPBACK}:{layout.ports.etcd}"
    peer = f"http://{LOOPBACK}:{layout.ports.etcd_peer}"
    return [
        f"--data-dir={layout.etcd_data}",
        "--name=e2e",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=e2e={peer}",
        "--unsafe-no-fsync",
        "--heartbeat-interval=10",
        "--election-timeout=100",
        "--log-level=warn",
    ]


def apiserver(layout: Layout, min_request_timeout: int) -> list[str]:
    """Everything by RBAC; users by token, client certificate or service account. What `dovetail` asks is on record."""
    policy = layout.directory / "audit-policy.json"
    policy.write_text(json.dumps(AUDIT_POLICY))
    return [
        f"--audit-policy-file={policy}",
        f"--audit-log-path={layout.audit_log}",
        f"--etcd-servers=http://{LOOPBACK}:{layout.ports.etcd}",
        f"--bind-address={LOOPBACK}",
        f"--advertise-address={LOOPBACK}",
        f"--secure-port={layout.ports.apiserver}",
        "--endpoint-reconciler-type=none",
        f"--tls-cert-file={layout.serving.certificate}",
        f"--tls-private-key-file={layout.serving.key}",
        f"--client-ca-file={layout.ca_file}",
        f"--token-auth-file={layout.tokens}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={layout.service_account_key}",
        f"--service-account-signing-key-file={layout.service_account_key}",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--delete-collection-workers=16",
        f"--min-request-timeout={min_request_timeout}",
    ]


def controller_manager(layout: Layout, kubeconfig: Path) -> list[str]:
    """All controllers, each under its own service account."""
    return [
        f"--kubeconfig={kubeconfig}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={layout.ports.controller_manager}",
        f"--cert-dir={layout.directory}",
        "--leader-elect=false",
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={layout.service_account_key}",
        f"--root-ca-file={layout.ca_file}",
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
        "--node-monitor-grace-period=24h",
    ]


def scheduler(layout: Layout, kubeconfig: Path) -> list[str]:
    """The default profile."""
    configuration = layout.directory / "scheduler.json"
    configuration.write_text(
        json.dumps(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "leaderElection": {"leaderElect": False},
                "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 1000, "burst": 2000},
            }
        )
    )
    return [
        f"--config={configuration}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={layout.ports.scheduler}",
        f"--cert-dir={layout.directory}",
    ]


def kwok(layout: Layout, kubeconfig: Path) -> list[str]:
    """The kubelet of every node annotated `kwok.x-k8s.io/node=fake`; see stages.yaml."""
    return [
        f"--kubeconfig={kubeconfig}",
        f"--config={STAGES}",
        f"--server-address={LOOPBACK}:{layout.ports.kwok}",
        f"--node-ip={LOOPBACK}",
    ]
