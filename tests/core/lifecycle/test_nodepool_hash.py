"""The hash of a NodePool's template is Karpenter's, and fields that Karpenter does not have are hashed apart."""

import gzip
import json
from pathlib import Path

import pytest

from builders import nodepool
from dovetail.core.lifecycle.nodepool_hash import HASH_VERSION, has_changed, hash_annotations, own_hash, template_hash
from dovetail.manifest import codec
from dovetail.model.kinds import NODE_POOL
from dovetail.model.labels import NODEPOOL_HASH, NODEPOOL_HASH_VERSION, OWN_NODEPOOL_HASH

VECTORS = Path(__file__).parents[2] / "data/nodepool_hashes/hashes.jsonl.gz"
KUBELET = {"kubelet": {"maxPods": 20}}


def test_2000_hashes_are_those_of_karpenter():
    """Made with Karpenter v1.14.1 from random templates, empty lists and maps among them."""
    rows = [json.loads(line) for line in gzip.decompress(VECTORS.read_bytes()).splitlines()]
    wrong = [each for each in rows if template_hash(_pool(each["template"])) != each["hash"]]
    assert len(rows) == 2000
    assert wrong == []


def _pool(template):
    return codec.from_plain(NODE_POOL, {"metadata": {"name": "p"}, "spec": {"template": template}})


def test_an_empty_list_or_map_is_not_an_absent_one_after_writing_and_reading():
    for field in ({"template": {"taints": []}}, {"template_metadata": {"labels": {}}}):
        pool = nodepool(**field)
        again = codec.from_plain(NODE_POOL, codec.to_plain(NODE_POOL, pool))
        assert template_hash(again) == template_hash(pool) != template_hash(nodepool())
        assert again == pool, "what is cached by the value of a NodePool has the hash of that NodePool"
        assert pool != nodepool()


def test_the_default_expiration_is_hashed_as_if_it_were_written():
    assert template_hash(nodepool(template={"expireAfter": "720h"})) == template_hash(nodepool())


def test_fields_that_karpenter_does_not_have_change_our_own_hash_alone():
    plain, tuned = nodepool(), nodepool(template=KUBELET)
    assert template_hash(plain) == template_hash(tuned)
    assert own_hash(plain) == "" != own_hash(tuned)
    assert OWN_NODEPOOL_HASH not in hash_annotations(plain)
    assert hash_annotations(tuned)[OWN_NODEPOOL_HASH] == own_hash(tuned)


@pytest.mark.parametrize(("made_from", "now"), [({}, KUBELET), (KUBELET, {}), (KUBELET, {"kubelet": {"maxPods": 21}})])
def test_nodes_drift_when_a_field_of_ours_is_added_removed_or_changed(made_from, now):
    assert has_changed(hash_annotations(nodepool(template=made_from)), nodepool(template=now))
    assert not has_changed(hash_annotations(nodepool(template=now)), nodepool(template=now))


@pytest.mark.parametrize("version", ["dovetail-v1", "v2", ""])
def test_hashes_of_another_version_are_not_compared(version):
    assert not has_changed({NODEPOOL_HASH: "1", NODEPOOL_HASH_VERSION: version}, nodepool())
    assert not has_changed({NODEPOOL_HASH_VERSION: HASH_VERSION}, nodepool())
    assert has_changed({NODEPOOL_HASH: "1", NODEPOOL_HASH_VERSION: HASH_VERSION}, nodepool())
