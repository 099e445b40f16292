"""One finding for one mistake, in plain words."""

from dovetail.manifest.documents import read_documents
from dovetail.manifest.portability import for_karpenter
from dovetail.manifest.validation import faults_of
from manifest.corpus import disrupted, pool


def test_what_cannot_be_decoded_is_named_in_plain_words():
    owner = {"apiVersion": "v1", "kind": "Node", "name": "a"}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
    [fault] = faults_of({**budget, "metadata": {"name": "a", "ownerReferences": [owner]}}).faults
    assert str(fault) == "metadata.ownerReferences[0].uid: is required"
    [fault] = faults_of({**budget, "metadata": {"name": "a", "deletionTimestamp": "soon"}}).faults
    assert str(fault) == "metadata.deletionTimestamp: must be a time such as 2026-01-05T12:00:00Z"


def test_an_annotation_that_is_no_text_is_named():
    [fault] = faults_of({**pool(), "metadata": {"name": "a", "annotations": {"a": 5}}}).faults
    assert str(fault) == 'metadata.annotations.a: must be text (got 5); put it in quotes: "5"'


def ec2_class(**spec):
    terms = [{"tags": {"a": "b"}}]
    usual = {"role": "a", "subnetSelectorTerms": terms, "securityGroupSelectorTerms": terms}
    images = {"amiSelectorTerms": [{"alias": "al2023@latest"}]}
    metadata = {"name": "default"}
    kind = {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass"}
    return {**kind, "metadata": metadata, "spec": usual | images | spec}


def test_one_wrong_value_has_one_fault():
    [fault] = faults_of(ec2_class(amiSelectorTerms=[{"alias": "latest"}])).faults
    assert fault.path == "spec.amiSelectorTerms[0].alias"
    assert "write a family and a version such as al2023@latest" in str(fault)


def test_a_signal_without_its_counterpart_is_one_fault():
    [fault] = faults_of(ec2_class(kubelet={"evictionSoft": {"memory.available": "5%"}})).faults
    assert str(fault).startswith("spec.kubelet.evictionSoft[memory.available]: has no entry in evictionSoftGracePeriod")


def test_an_alias_or_anchor_without_name_is_text_without_quotes():
    for sign in "*&":
        [document] = read_documents(f"kind: NodePool\nname: {sign}\n", "a.yaml")
        assert "text that starts with * or & needs quotes" in document.faults[0].problem


def test_karpenter_enforces_only_an_expiration_that_happens():
    for after, enforced in (("Never", False), ("720h", True)):
        document = disrupted(consolidateAfter="0s", expireAfter=after)
        remedies = [fault.remedy for fault in for_karpenter(faults_of(document), document).faults]
        assert any(f"write spec.template.spec.expireAfter: {after}" in each for each in remedies)
        assert any("regardless of budgets" in each for each in remedies) is enforced
