"""A controller process: plans are computed beside its event loop, and its garbage collections are short."""

import asyncio
import gc
import threading

from dovetail.settings import Settings
from dovetail.wiring.live import on_cluster

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
clusters: [{name: here, cluster: {server: "http://127.0.0.1:9"}}]
contexts: [{name: here, context: {cluster: here, user: me}}]
users: [{name: me, user: {}}]
"""


def test_plans_are_computed_in_a_thread_and_full_collections_freeze_what_survives(tmp_path):
    path = tmp_path / "config"
    path.write_text(KUBECONFIG)
    usual = [*gc.callbacks]

    async def thread_of_a_plan():
        async with on_cluster(path, None, Settings(ledger="off")) as parts:
            assert len(gc.callbacks) == len(usual) + 1
            context = parts.manager.disruption._context
            assert parts.manager.provisioner._context.compute is context.compute, "one thread for all plans"
            return await context.compute.run(lambda: threading.current_thread().name)

    assert asyncio.run(thread_of_a_plan()) == "planning"
    assert gc.callbacks == usual
