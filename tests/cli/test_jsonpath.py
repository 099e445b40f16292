"""Templates of `-o jsonpath=`, with the results that `kubectl get -o jsonpath=` gives for the same document."""

import pytest

from dovetail.cli.jsonpath import TemplateInvalid, compile_template

DOCUMENT = {
    "kind": "Plan",
    "commands": [
        {"method": "drift", "nodes": ["a", "b"], "saving": 1.5, "done": True},
        {"method": "emptiness", "nodes": [], "saving": 0, "done": False, "note": None},
    ],
    "labels": {"karpenter.sh/nodepool": "web", "zone": "z1"},
}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{.kind}", "Plan"),
        (".kind", "Plan"),
        ("kind", "Plan"),
        ("{$.kind}", "Plan"),
        ("{.commands[0].method}", "drift"),
        ("{.commands[-1].method}", "emptiness"),
        ("{.commands[5].method}", ""),
        ("{.commands[*].method}", "drift emptiness"),
        ("{.commands[*].nodes[*]}", "a b"),
        ("{.commands[*].nodes}", '["a","b"] []'),
        ("{.commands[0:1].method}", "drift"),
        ("{.commands[0].done} {.commands[1].saving}", "true 0"),
        ("{.commands[1].note}", ""),
        ("{.labels['karpenter.sh/nodepool']}", "web"),
        ("{.labels.*}", "web z1"),
        ("{..method}", "drift emptiness"),
        ("{.commands[?(@.method=='drift')].nodes[0]}", "a"),
        ('{.commands[?(@.method!="drift")].method}', "emptiness"),
        ("{.commands[?(@.saving>1)].method}", "drift"),
        ("{.commands[?(@.done==true)].method}", "drift"),
        ("{.commands[?(@.note)].method}", "emptiness"),
        ("{.commands[?(@.method<5)].method}", ""),
        ('{range .commands[*]}{.method}{"\\t"}{.saving}{"\\n"}{end}', "drift\t1.5\nemptiness\t0\n"),
        ("{range .commands[*]}{range .nodes[*]}<{@}>{end}{end}", "<a><b>"),
        ("plan: {.kind}!", "plan: Plan!"),
        ("{.missing.deeper}", ""),
    ],
)
def test_a_template_is_rendered_as_by_kubectl(template, text):
    assert compile_template(template).render(DOCUMENT) == text


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{.kind", "a brace is not closed"),
        ("{range .commands[*]}{.method}", "{range ...} without {end}"),
        ("{.kind}{end}", "{end} without {range ...}"),
        ("{.commands[x]}", "'[x]' in '.commands[x]' is not a field"),
        ("{.commands[?(@.a==b)]}", "'b' is neither a number"),
        ('{"text}', "a quote is not closed"),
    ],
)
def test_an_invalid_template_is_refused_with_the_faulty_part(template, words):
    with pytest.raises(TemplateInvalid) as raised:
        compile_template(template)
    assert words in str(raised.value)
