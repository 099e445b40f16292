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


def test_the_target_karpenter_reports_what_it_does_not_accept(write):
    path = write("pool.yaml", pool(repair={}))
    assert run("validate", path).exit_code == 0
    result = run("validate", path, "--target", "karpenter")
    assert result.exit_code == 1
    assert "spec.repair: is not a field of Karpenter's v1 CRDs" in result.output


def test_fields_that_need_our_crds_are_named_with_the_way_to_install_them(write):
    ours = write(
        "a.yaml", disrupted(consolidationGracePeriod="1h"), pool("v1", repair={}) | {"metadata": {"name": "b"}}
    )
    result = run("validate", ours)
    assert result.exit_code == 0
    assert (
        "Karpenter's CRDs drop spec.disruption.consolidationGracePeriod, spec.repair: install Dovetail's CRDs"
        " (dovetail crds | kubectl apply --server-side -f -), or write annotations (see --target karpenter).\n"
    ) in result.output
    for arguments in ((write("b.yaml", pool()),), (ours, "--target", "karpenter"), (ours, "-o", "json")):
        assert "or write annotations" not in run("validate", *arguments).output
    beta = disrupted("v1beta1", expireAfter="1h")
    assert "CRDs drop" not in run("validate", write("c.yaml", beta)).output


def test_a_name_that_occurs_twice_is_a_fault_that_names_both_places(write):
    other = pool("v1beta1")
    result = run("validate", write("a.yaml", pool(), node_class()), write("b.yaml", node_class(), other))
    assert result.exit_code == 1
    assert result.output.count("is also the name of") == 2
    assert f"NodePool at {write('a.yaml', pool(), node_class())}:1: applying both keeps only one" in result.output


def test_the_same_name_for_two_clusters_is_only_a_warning(tmp_path):
    for cluster in ("dev", "prod"):
        (tmp_path / cluster).mkdir()
        (tmp_path / cluster / "pool.yaml").write_text(yaml.safe_dump(pool()))
    result = run("validate", tmp_path)
    assert result.exit_code == 0
    earlier = tmp_path / "dev" / "pool.yaml"
    assert f"is also the name of the NodePool at {earlier}:1: in one cluster, applying both keeps" in result.output
    assert run("validate", tmp_path, "--strict").exit_code == 1


def test_other_kinds_namespaces_and_documents_without_name_are_no_duplicates(write):
    pods = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": each}} for each in "xz"]
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}}
    generated = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "a-"}}
    result = run("validate", write("a.yaml", *pods, deployment, deployment, generated, generated))
    assert "is also the name" not in result.output


def test_faults_are_in_order_of_lines_with_the_line_of_a_syntax_error():
    text = "apiVersion: karpenter.sh/v1\nkind: NodePool\nspec:\n  weight: x\nmetadata:\n  name: A\n---\na: 1\nb: [\n"
    lines = [line for line in run("validate", "-", stdin=text).output.splitlines() if line.startswith("  fault")]
    assert [line.split()[2] for line in lines] == ["3", "4", "6", "9"]
    assert "cannot be read as YAML: a bracket is not closed" in lines[-1]


def test_a_name_cannot_look_like_a_line_of_the_output(write, tmp_path):
    document = pool()
    document["metadata"]["name"] = "x\nother.yaml:1 NodePool x: ok\x1b[31m"
    folder = tmp_path / "a\nb\x1b[0m"
    folder.mkdir()
    path = write(f"{folder.name}/pool.yaml", document)
    for arguments in ((path,), (folder / "absent",), (path, "-o", "json"), (path, "-o", "yaml")):
        result = run("validate", *arguments)
        assert "\x1b" not in result.output
        assert not any(line.startswith(("other.yaml", "b")) for line in result.output.splitlines())


def test_standard_input_is_read():
    result = run("validate", "-", stdin=yaml.safe_dump(pool()))
    assert result.exit_code == 0
    assert "<stdin>:1" in result.output


def test_a_template_is_a_fault_with_its_place():
    result = run("validate", "-", stdin="a: 1\n---\nname: {{ .Values.name }}\n")
    assert result.exit_code == 1
    assert "<stdin>:2 document: invalid" in result.output
    assert "line 3  is a template, not a manifest: {{ .Values.name }}" in result.output


@pytest.mark.parametrize(("output", "load"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_findings_can_be_read_by_programs(write, output, load):
    result = run("validate", "-o", output, write("pool.yaml", budgeted({"nodes": "1", "duration": "5s"})))
    assert result.exit_code == 1
    report = load(result.stdout)
    assert (report["apiVersion"], report["kind"]) == ("dovetail.sh/v1alpha1", "ValidationReport")
    assert report["unreadable"] == []
    [row] = report["documents"]
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
    assert "it is nested more than 100 levels deep" in result.output


def test_one_wrong_value_is_one_fault(write):
    wrong = pool()
    wrong["spec"]["limits"] = {"cpu": "abc"}
    result = run("validate", write("pool.yaml", wrong))
    assert result.output.count("spec.limits.cpu") == 1


@pytest.mark.parametrize("text", ["yes", "1.10", "014", "1_000", "1e3", "0x1F"])
@pytest.mark.parametrize("listed", [False, True])
def test_the_text_that_was_written_is_put_in_quotes_not_what_yaml_makes_of_it(text, listed, tmp_path):
    document = pool(metadata={"labels": {"version": "WRITTEN"}})
    document = {"apiVersion": "v1", "kind": "List", "items": [pool(), document]} if listed else document
    path = tmp_path / "pool.yaml"
    path.write_text(yaml.safe_dump(document).replace("WRITTEN", text), encoding="utf-8")
    result = run("validate", path, "-o", "json")
    faults = {each["path"]: each for entry in json.loads(result.stdout)["documents"] for each in entry["faults"]}
    fault = faults["spec.template.metadata.labels.version"]
    assert fault["remedy"].startswith(f'put it in quotes: "{text}"')
    assert fault["fix"] == text


def test_names_that_are_no_text_are_not_compared(tmp_path):
    path = tmp_path / "pools.yaml"
    path.write_text("---\n".join(yaml.safe_dump(pool()).replace("default", name, 1) for name in ("y", "on")))
    problems = [
        fault["problem"]
        for entry in json.loads(run("validate", path, "-o", "json").stdout)["documents"]
        for fault in entry["faults"]
    ]
    assert problems == ["must be text, not true or false"] * 2
