"""The charts as files: one version, values that the schema and the README describe, and settings that exist.

What Helm renders, and what an API server makes of it, is in tests/e2e/test_helm.py.
"""

import importlib.util
import json
import re
import tomllib
from pathlib import Path

import jsonschema
import pytest
import yaml

from distribution.karpenter_values import KARPENTER_VALUES
from dovetail.karpenter_settings import AWS_GATES, KARPENTER_GATES, KARPENTER_SETTINGS
from dovetail.settings import setting_fields

ROOT = Path(__file__).parents[2]
CHARTS = ROOT / "charts"
NAMES = ("dovetail", "dovetail-crds")
ELSEWHERE = {
    "METRICS_PORT": "controller.metrics.port",
    "HEALTH_PROBE_PORT": "controller.healthProbe.port",
    "DOVETAIL_DASHBOARD_PORT": "dashboard.port",
    "DOVETAIL_DASHBOARD_ADDRESS": "dashboard.service.enabled",
    "DOVETAIL_DASHBOARD_AUTH": "dashboard.service.enabled",
    "DOVETAIL_LEDGER": "ledger.volume",
    "LOG_LEVEL": "logLevel",
    "LOG_OUTPUT_PATHS": "logOutputPaths",
    "FEATURE_GATES": "settings.featureGates",
}
"""Settings that are not under `settings`, and the value they follow from."""
ONLY_BY_ENVIRONMENT = {
    "DISABLE_LEADER_ELECTION": "two replicas would both act",
    "EKS_CONTROL_PLANE": "`false` is the default of Karpenter's values, which then leaves the variable out",
    "DOVETAIL_DASHBOARD_TOKEN_FILE": "it needs a volume, and the Service has token reviews instead",
}
"""Settings that the chart leaves to `controller.env`."""


def values_of(chart):
    return yaml.safe_load((CHARTS / chart / "values.yaml").read_text())


def schema_of(chart):
    return json.loads((CHARTS / chart / "values.schema.json").read_text())


def variables():
    """The environment variable of each key under `settings`, as the template has it."""
    text = (CHARTS / "dovetail" / "templates" / "_environment.tpl").read_text()
    return yaml.safe_load(re.search(r'define "dovetail.variables" -}}\n(.*?){{- end', text, re.DOTALL)[1])


@pytest.fixture(name="tool")
def load_tool():
    spec = importlib.util.spec_from_file_location("values_table", CHARTS / "values_table.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


@pytest.mark.parametrize("chart", NAMES)
def test_a_chart_has_the_version_of_the_package(chart):
    described = yaml.safe_load((CHARTS / chart / "Chart.yaml").read_text())
    package = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert (described["version"], described["appVersion"]) == (package, package)


def test_the_kustomize_base_and_the_guides_name_the_image_of_this_version():
    package = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    base = yaml.safe_load((ROOT / "deploy" / "base" / "kustomization.yaml").read_text())
    assert [each["newTag"] for each in base["images"]] == [package]
    for guide in ("install.md", "deploy.md"):
        named = re.findall(r"example\.com/dovetail:(\S+)", (ROOT / "docs" / "guides" / guide).read_text())
        assert set(named) == {package}


@pytest.mark.parametrize("chart", NAMES)
def test_the_readme_has_every_value_with_its_default(tool, chart):
    readme, values = ((CHARTS / chart / name).read_text() for name in ("README.md", "values.yaml"))
    assert tool.with_table(readme, values) == readme, "run python charts/values_table.py"


@pytest.mark.parametrize("chart", NAMES)
def test_every_value_has_a_description(tool, chart):
    paths = [path for path, _ in tool.described((CHARTS / chart / "values.yaml").read_text())]
    for leaf in leaves(values_of(chart)):
        assert any(leaf == path or leaf.startswith(f"{path}.") for path in paths), leaf


def leaves(values, path=""):
    for name, value in values.items():
        inner = f"{path}.{name}" if path else name
        if isinstance(value, dict) and value:
            yield from leaves(value, inner)
        else:
            yield inner


@pytest.mark.parametrize("chart", NAMES)
def test_the_schema_describes_the_defaults_and_nothing_else(chart):
    schema = schema_of(chart)
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.validate(values_of(chart), schema)
    assert closed(schema) - {"global"} == closed_values(schema, values_of(chart))


def closed(schema, path=""):
    """The path of every value that the schema names."""
    found = set()
    for name, inner in schema.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        found |= closed(inner, here) if inner.get("properties") and inner.get("type") == "object" else {here}
    return {each for each in found if not each.startswith("controller.securityContext.")}


def closed_values(schema, values, path=""):
    """The path of every default, as deep as the schema goes."""
    found = set()
    for name, value in values.items():
        here, inner = f"{path}.{name}" if path else name, schema["properties"][name]
        if isinstance(value, dict) and value and inner.get("properties"):
            found |= closed_values(inner, value, here)
        elif here != "controller.securityContext":
            found.add(here)
    return found


def test_values_of_karpenters_chart_are_accepted():
    jsonschema.validate(KARPENTER_VALUES, schema_of("dovetail"))


@pytest.mark.parametrize(
    "wrong",
    [
        {"settings": {"clusterNam": "demo"}},
        {"settings": {"disruption": "maybe"}},
        {"settings": {"batchMaxDuration": "ten"}},
        {"settings": {"ignoreDRARequests": False}},
        {"settings": {"featureGates": {"driftt": True}}},
        {"replicas": "2"},
        {"logLevel": "trace"},
        {"controller": {"image": {"digest": "latest"}}},
        {"controller": {"metrics": {"port": 0}}},
        {"webhook": {"enabled": True}},
    ],
    ids=str,
)
def test_wrong_values_are_refused(wrong):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, schema_of("dovetail"))


def test_every_setting_of_the_controller_is_a_value_of_the_chart():
    known = {setting.variable for setting in setting_fields()}
    placed = {*variables().values(), *ELSEWHERE, *ONLY_BY_ENVIRONMENT}
    assert known - placed == set()
    assert set(variables().values()) <= known | {each.variable for each in KARPENTER_SETTINGS}
    settings = {*values_of("dovetail")["settings"], "eksControlPlane"}
    assert settings == {*variables(), "eksControlPlane", "featureGates", "awsFeatureGates"}


def test_the_schema_has_the_choices_of_the_settings():
    key_by_variable = {variable: key for key, variable in variables().items()}
    properties = schema_of("dovetail")["properties"]["settings"]["properties"]
    for setting in setting_fields():
        if setting.choices and setting.variable in key_by_variable:
            offered = {each for each in properties[key_by_variable[setting.variable]]["enum"] if isinstance(each, str)}
            assert offered - {""} == set(setting.choices), setting.name


def test_defaults_of_the_chart_are_defaults_of_the_controller():
    key_by_variable = {variable: key for key, variable in variables().items()}
    defaults = values_of("dovetail")["settings"]
    for setting in setting_fields():
        value = defaults.get(key_by_variable.get(setting.variable, ""), "")
        if value != "" and setting.kind in {str, bool, int, float}:
            assert setting.kind(value) == setting.default, setting.name


def test_the_chart_has_every_feature_gate():
    settings = values_of("dovetail")["settings"]
    for gates, key in ((KARPENTER_GATES, "featureGates"), (AWS_GATES, "awsFeatureGates")):
        assert {f"{name[0].upper()}{name[1:]}" for name in settings[key]} == {gate.name for gate in gates}
