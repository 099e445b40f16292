"""A kube-scheduler that tells which nodes it would accept for a pod, and then takes the one it is told to.

It is the real program with its real filters. It asks an extender (us) last, with the nodes that passed every filter;
we note them and leave one. Pinning a pod through its node affinity instead would change what is asked: topology spread
counts only nodes that match the affinity. Nothing is evicted for a pod with a higher priority.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from e2e.components import build
from e2e.controlplane.commands import LOOPBACK

NAME = "agreement"


class Witness:
    """What the scheduler found for each pod, by uid, and which node each pod is to take."""

    def __init__(self):
        self._lock = threading.Lock()
        self._feasible = {}
        self._chosen = {}

    def choose(self, uid, node):
        with self._lock:
            self._chosen[uid] = node

    def feasible(self, uid):
        """The nodes that passed every filter; None if the scheduler found none, or has not looked yet."""
        with self._lock:
            return self._feasible.get(uid)

    def filter(self, uid, nodes):
        with self._lock:
            self._feasible[uid] = frozenset(nodes)
            return [node for node in nodes if node == self._chosen.get(uid)]


def _handler(witness):
    class Extender(BaseHTTPRequestHandler):
        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            left = witness.filter(asked["Pod"]["metadata"]["uid"], asked["NodeNames"])
            answer = json.dumps({"NodeNames": left}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            pass

    return Extender


def _configuration(control_plane, port):
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(control_plane.kubeconfig), "qps": 1000, "burst": 2000},
        "percentageOfNodesToScore": 100,
        "profiles": [{"schedulerName": NAME, "plugins": {"postFilter": {"disabled": [{"name": "*"}]}}}],
        "extenders": [{"urlPrefix": f"http://{LOOPBACK}:{port}", "filterVerb": "filter", "nodeCacheCapable": True}],
    }


@contextmanager
def running_scheduler(control_plane) -> Iterator[Witness]:
    """The scheduler beside the cluster's own, for pods that name it."""
    witness = Witness()
    with ThreadingHTTPServer((LOOPBACK, 0), _handler(witness)) as server:
        serving = threading.Thread(target=server.serve_forever, daemon=True)
        serving.start()
        written = control_plane.directory / "agreement-scheduler.json"
        written.write_text(json.dumps(_configuration(control_plane, server.server_port)))
        program = str(build.binaries_dir() / "kube-scheduler")
        process = control_plane.launch("agreement-scheduler", program, f"--config={written}", "--secure-port=0")
        try:
            yield witness
            assert process.exit_code is None, process.tail()
        finally:
            process.stop()
            server.shutdown()
            serving.join()
