"""A sweep comes out the same on local cores and on a Dask cluster: three settings, four values of each, five seeds."""

import json

import pytest
from typer.testing import CliRunner

from dovetail.cli.app import app

pytestmark = pytest.mark.filterwarnings("default")  # Dask's own threads and sockets

STORY = """
apiVersion: dovetail.sh/v1alpha1
kind: Scenario
metadata: {name: restless}
spec:
  for: 3m
  catalog: generic
  objects:
    - {apiVersion: karpenter.kwok.sh/v1alpha1, kind: KWOKNodeClass, metadata: {name: default}}
    - apiVersion: karpenter.sh/v1
      kind: NodePool
      metadata: {name: default}
      spec:
        template:
          spec:
            expireAfter: Never
            nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
            requirements:
              - {key: node.kubernetes.io/instance-type, operator: In, values: [c-2x-amd64-linux]}
              - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
        disruption: {consolidateAfter: 10s, budgets: [{nodes: "1"}]}
  workloads:
    - {name: web, cpu: 1500m, memory: 1Gi, daily: {low: 3, high: 3, every: 40s, noise: 1.0}}
"""
SWEEPS = {
    "nodepool/default.spec.disruption.consolidateAfter": "0s,20s,1m,Never",
    "nodepool/default.spec.disruption.budgets[0].nodes": "0,1,50%,100%",
    "nodepool/default.spec.template.spec.expireAfter": "1m,90s,2m,Never",
}


def told(story, setting, *arguments):
    typed = ["simulate", str(story), "--sweep", f"{setting}={SWEEPS[setting]}", "--seeds", "5", "-o", "json"]
    result = CliRunner().invoke(app, [*typed, *arguments])
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_a_sweep_comes_out_the_same_on_local_cores_and_on_a_dask_cluster(tmp_path):
    from distributed import LocalCluster

    story = tmp_path / "restless.yaml"
    story.write_text(STORY)
    here = {setting: told(story, setting) for setting in SWEEPS}
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        there = {setting: told(story, setting, "--dask", cluster.scheduler_address) for setting in SWEEPS}
    assert here == there
    assert sum(len(each["runs"]) for each in here.values()) == 3 * 4 * 5
    for setting, values in SWEEPS.items():
        rows, runs = here[setting]["variants"], here[setting]["runs"]
        assert [row["variant"] for row in rows] == [f"{setting}={value}" for value in values.split(",")]
        assert all(row["seeds"] == [0, 1, 2, 3, 4] for row in rows)
        assert len({row["cost"] for row in rows}) > 1, "values make a difference"
        assert len({json.dumps(run["timeline"]) for run in runs}) > 5, "and so do seeds"
