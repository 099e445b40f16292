"""Volumes of pods that are moved."""

from dataclasses import replace

from acceptance.fleet import ON_DEMAND, cluster, drifted, free, running
from builders import LARGE, build
from dovetail.core.disruption.planner import plan_disruption
from dovetail.model.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM
from dovetail.model.storage import Storage

HERE = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["a"]}


def test_a_local_volume_does_not_tie_the_replacement_to_the_old_host():
    volume = build(
        PERSISTENT_VOLUME,
        {
            "metadata": {"name": "disk"},
            "spec": {
                "local": {"path": "/mnt"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [HERE]}]}},
            },
        },
    )
    claimed = build(
        PERSISTENT_VOLUME_CLAIM,
        {
            "metadata": {"name": "data", "namespace": "default"},
            "spec": {"volumeName": "disk", "storageClassName": ""},
            "status": {"phase": "Bound"},
        },
    )
    pod = running("x", "a", spec={"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]})
    pools = [free(consolidateAfter="Never", template=ON_DEMAND)]
    found = cluster(drifted("a", pod), pools=pools, types=(LARGE,))
    stored = replace(found, storage=Storage(claims={claimed.key: claimed}, volumes={"disk": volume}))
    assert [len(command.replacements) for command in plan_disruption(stored).commands] == [1]
