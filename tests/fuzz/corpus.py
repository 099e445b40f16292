"""Valid inputs to start from: the examples, test data and a few objects made here."""

import gzip
import json
import sqlite3
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from dovetail.manifest.documents import read_documents
from dovetail.observe.ledger_schema import connect, write_close, write_open
from dovetail.ports.ledger import Considered, DecisionOutcome, LedgerAction, LedgerEnding, LedgerEntry, LedgerNode
from manifest.corpus import CASES
from manifest.seed_examples import EXAMPLES

ROOT = Path(__file__).parents[2]
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


@cache
def manifests() -> tuple[dict, ...]:
    """Documents of every kind that is validated."""
    files = [*(ROOT / "examples").rglob("nodepools/*.yaml"), ROOT / "examples/aws/default.yaml"]
    found = [each.content for file in sorted(files) for each in read_documents(file.read_text(), file.name)]
    return (*found, *(case.document for case in (*EXAMPLES, *CASES)))


@cache
def snapshot() -> dict:
    """A small snapshot as a document."""
    [document] = read_documents((ROOT / "examples/snapshots/office-hours.yaml").read_text(), "snapshot")
    return document.content


@cache
def scenarios() -> tuple[dict, ...]:
    """The scenarios of the examples."""
    files = sorted((ROOT / "examples/scenarios").glob("*.yaml"))
    return tuple(each.content for file in files for each in read_documents(file.read_text(), file.name))


def trace_csv() -> bytes:
    """A recorded trace."""
    return (ROOT / "examples/scenarios/batch-trace.csv").read_bytes()


TRACE_JSON = {
    "arrivals": [
        {"name": "a", "arrive": 0, "leave": "90m", "cpu": "1", "memory": "1Gi", "pods": 3, "priority": 5},
        {"name": "b", "arrive": "1h", "cpu": 0.5, "memory": "2Gi", "node_selector": {"a": "b"}, "tolerations": "x;y=z"},
    ]
}
KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "c",
    "clusters": [
        {
            "name": "k",
            "cluster": {
                "server": "https://[::1]:6443",
                "certificate-authority-data": "YQ==",
                "proxy-url": "http://proxy:1",
                "tls-server-name": "x",
                "extensions": [{"name": "e", "extension": {"a": 1}}],
            },
        }
    ],
    "users": [
        {"name": "u", "user": {"token": "t", "as": "me", "as-groups": ["g"], "as-user-extra": {"a b": ["c"]}}},
        {
            "name": "e",
            "user": {
                "exec": {
                    "command": "x",
                    "apiVersion": "client.authentication.k8s.io/v1",
                    "args": ["a"],
                    "env": [{"name": "A", "value": "b"}],
                    "provideClusterInfo": True,
                }
            },
        },
        {
            "name": "p",
            "user": {"username": "a", "password": "b", "client-certificate-data": "YQ==", "client-key-data": "YQ=="},
        },
    ],
    "contexts": [
        {"name": name, "context": {"cluster": "k", "user": user, "namespace": "n"}}
        for name, user in (("c", "u"), ("d", "e"), ("f", "p"))
    ],
}
EXEC_ANSWER = {
    "apiVersion": "client.authentication.k8s.io/v1",
    "kind": "ExecCredential",
    "status": {"token": "t", "expirationTimestamp": "2026-01-05T12:00:00Z"},
}


def _event(source: str, kind: str, detail: dict) -> dict:
    return {
        "version": "0",
        "id": "x",
        "detail-type": kind,
        "source": source,
        "time": "2026-01-05T12:00:00Z",
        "region": "us-east-1",
        "resources": [],
        "detail": detail,
    }


MESSAGES = (
    _event(
        "aws.ec2", "EC2 Spot Instance Interruption Warning", {"instance-id": "i-0a", "instance-action": "terminate"}
    ),
    _event("aws.ec2", "EC2 Instance Rebalance Recommendation", {"instance-id": "i-0a"}),
    _event("aws.ec2", "EC2 Instance State-change Notification", {"instance-id": "i-0a", "state": "stopping"}),
    _event(
        "aws.health",
        "AWS Health Event",
        {
            "service": "EC2",
            "eventTypeCategory": "scheduledChange",
            "startTime": "Sat, 05 Jun 2026 15:10:09 GMT",
            "statusCode": "open",
            "affectedEntities": [{"entityValue": "i-0a"}],
        },
    ),
)
INSTANCE_TYPES = [
    {
        "name": "m5.large",
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": {"cpu": "2", "memory": "8Gi", "pods": "110"},
        "offerings": [
            {
                "Price": 0.1,
                "Available": True,
                "Requirements": [
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
                    {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-a"]},
                ],
            }
        ],
    },
    {
        "name": "x",
        "architecture": "arm64",
        "operatingSystems": ["linux"],
        "resources": {"cpu": 1, "memory": "1Gi"},
        "offerings": [{"capacityType": "on-demand", "zone": "a", "price": 1}],
    },
]


def objects_of_watches() -> tuple[dict, ...]:
    """Objects as a watch would bring them."""
    return tuple(snapshot()["objects"])


def watch_lines(objects: tuple[dict, ...]) -> bytes:
    """A stream of events about objects."""
    kinds = ("ADDED", "MODIFIED", "DELETED")
    lines = [{"type": kinds[at % 3], "object": each} for at, each in enumerate(objects)]
    lines.append({"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {"resourceVersion": "9"}}})
    lines.append(
        {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}
    )
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


@cache
def ledger() -> bytes:
    """A ledger with a few decisions in it."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        connection = connect(path)
        facts = LedgerNode(nodeclaim="c", node="n", nodepool="default", instance_type="m5.large", price=0.1)
        for identity, act in (("aa", LedgerAction.DISRUPT), ("ab", LedgerAction.LAUNCH), ("b", LedgerAction.DISRUPT)):
            entry = LedgerEntry(
                id=identity,
                at=NOON,
                act=act,
                reason="Drifted",
                why="it drifted",
                nodes=(facts,),
                pods=("a/b",),
                considered=Considered(),
            )
            write_open(connection, "", entry)
        write_close(connection, "aa", LedgerEnding(outcome=DecisionOutcome.DONE, at=NOON, made=(facts,)))
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        connection.execute("PRAGMA journal_mode = DELETE").fetchall()
        connection.close()
        return path.read_bytes()


def ledger_rows(change) -> bytes:
    """A ledger whose file is sound and whose rows say something else; `change` gets a connection."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        path.write_bytes(ledger())
        connection = sqlite3.connect(path)
        change(connection)
        connection.commit()
        connection.close()
        return path.read_bytes()


def packed(content: bytes) -> bytes:
    """With gzip around it."""
    return gzip.compress(content, mtime=0)
