"""`dovetail validate` and `dovetail crds` from outside: what they print and how they exit."""

import json

import pytest
import typer
import yaml
from typer.testing import CliRunner

from dovetail.cli.crds import crds
from dovetail.cli.validate import validate
from manifest.corpus import budgeted, disrupted, node_class, pool

app = typer.Typer()
app.command()(validate)
app.command()(crds)


def run(*args, stdin=None):
    return CliRunner().invoke(app, [*map(str, args)], input=stdin)


@pytest.fixture
def write(tmp_path):
    def to_file(name, *documents):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("---\n".join(yaml.safe_dump(each) for each in documents), encoding="utf-8")
        return path

    return to_file


def test_valid_manifests_exit_with_0(write):
    result = run("validate", write("pool.yaml", pool(), node_class()))
    assert result.exit_code == 0
    assert "NodePool default: ok" in result.output
    assert "2 documents: 0 faults, 0 warnings" in result.output


def test_faults_exit_with_1_and_name_line_path_value_and_remedy(write):
    result = run("validate", write("pool.yaml", pool(), disrupted(consolidateAfter="soon")))
    assert result.exit_code == 1
    assert "spec.disruption.consolidateAfter: does not have the expected form (got 'soon')" in result.output
    assert "such as 30s" in result.output
    assert "line " in result.output


def test_warnings_are_faults_only_when_strict(write):
    path = write("pool.yaml", budgeted({"nodes": "0"}))
    assert run("validate", path).exit_code == 0
    assert "warning" in run("validate", path).output
    assert run("validate", "--strict", path).exit_code == 1


def test_a_missing_file_exits_with_2_and_the_rest_is_still_checked(write):
    result = run("validate", write("pool.yaml", pool()), "absent.yaml")
    assert result.exit_code == 2
    assert "absent.yaml: no such file" in result.output
    assert "NodePool default: ok" in result.output


def test_no_arguments_is_a_usage_error():
    assert run("validate").exit_code == 2


def test_a_directory_is_searched_for_yaml_and_json(write, tmp_path):
    write("pools/a.yaml", pool())
    write("pools/deep/b.yml", pool())
    (tmp_path / "pools/c.json").write_text(json.dumps(pool()), encoding="utf-8")
    write("pools/notes.txt", {"a": 1})
    assert "3 documents" in run("validate", tmp_path / "pools").output


def test_an_empty_directory_exits_with_2(tmp_path):
    assert run("validate", tmp_path).exit_code == 2


def test_a_binary_file_exits_with_2(tmp_path):
    (tmp_path / "a.yaml").write_bytes(b"\xff\xfe\x00")
    assert run("validate", tmp_path).exit_code == 2


def test_standard_input_is_read():
    result = run("validate", "-", stdin=yaml.safe_dump(pool()))
    assert result.exit_code == 0
    assert "<stdin>:1" in result.output


def test_a_template_is_a_fault_with_its_place():
    result = run("validate", "-", stdin="a: 1\n---\nname: {{ .Values.name }}\n")
    assert result.exit_code == 1
    assert "<stdin>:2 document: invalid" in result.output
    assert "{{ .Values.name }} on line 3" in result.output


@pytest.mark.parametrize(("output", "load"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_findings_can_be_read_by_programs(write, output, load):
    result = run("validate", "-o", output, write("pool.yaml", budgeted({"nodes": "1", "duration": "5s"})))
    assert result.exit_code == 1
    [row] = load(result.stdout)
    assert (row["kind"], row["name"], row["verdict"]) == ("NodePool", "default", "invalid")
    assert {fault["path"] for fault in row["faults"]} == {
        "spec.disruption.budgets[0]",
        "spec.disruption.budgets[0].duration",
    }
    assert all(fault["line"] > 1 and fault["remedy"] for fault in row["faults"])


def test_quiet_leaves_out_what_is_well(write):
    result = run("validate", "-q", write("pool.yaml", pool(), budgeted({"nodes": "x"})))
    assert result.output.count("NodePool default") == 1


def test_crds_are_printed_as_a_stream():
    names = [each["metadata"]["name"] for each in yaml.safe_load_all(run("crds").output)]
    assert names == [
        "nodepools.karpenter.sh",
        "nodeclaims.karpenter.sh",
        "kwoknodeclasses.karpenter.kwok.sh",
        "ec2nodeclasses.karpenter.k8s.aws",
    ]


def test_crds_of_one_kind():
    [only] = yaml.safe_load_all(run("crds", "--kind", "nodepool").output)
    assert only["spec"]["names"]["kind"] == "NodePool"
    assert run("crds", "--kind", "Nothing").exit_code == 2


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "---\n---\n"])
def test_nothing_to_validate_exits_with_2(text, tmp_path):
    path = tmp_path / "empty.yaml"
    path.write_text(text)
    for result in (run("validate", path), run("validate", "-", stdin=text)):
        assert result.exit_code == 2
        assert "has no documents to validate" in result.stderr


@pytest.mark.parametrize("levels", [101, 1500])
@pytest.mark.parametrize("form", [("a: ", "[", "]"), ("", '{"a":', "}"), ("", "[", "]")])
def test_too_deep_nesting_is_a_fault(form, levels):
    start, opening, closing = form
    result = run("validate", "-", stdin=f"{start}{opening * levels}{'1' if closing == '}' else ''}{closing * levels}")
    assert result.exit_code == 1
    assert "$: is nested more than 100 levels deep" in result.output


def test_one_wrong_value_is_one_fault(write):
    wrong = pool()
    wrong["spec"]["limits"] = {"cpu": "abc"}
    result = run("validate", write("pool.yaml", wrong))
    assert result.output.count("spec.limits.cpu") == 1
