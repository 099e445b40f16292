"""Selectors as they stand in a query."""

import pytest

from dovetail.sim.kubernetes.watch import field_selector, label_selector

POD = {"metadata": {"name": "web", "labels": {"app": "web", "tier": "front"}}, "spec": {"nodeName": "n1"}}


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ("", True),
        ("app=web", True),
        ("app==web,tier=front", True),
        ("app=web,tier=back", False),
        ("app!=web", False),
        ("missing!=x", True),
        ("app in (shop, web)", True),
        ("tier notin (back,front)", False),
        ("missing notin (a)", True),
        ("app", True),
        ("!app", False),
        ("!missing , app", True),
        ("app in (web),!missing,tier=front", True),
    ],
)
def test_labels(selector, selected):
    assert label_selector(selector)(POD) is selected


@pytest.mark.parametrize("selector", ["app in web", "=x", "app=(", "a b"])
def test_nonsense_is_refused(selector):
    with pytest.raises(ValueError, match="label selector"):
        label_selector(selector)


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ("spec.nodeName=n1", True),
        ("spec.nodeName!=n1", False),
        ("spec.nodeName=n1,metadata.name=web", True),
        ("status.phase=", True),
        ("metadata.name==shop", False),
    ],
)
def test_fields(selector, selected):
    assert field_selector(selector)(POD) is selected
