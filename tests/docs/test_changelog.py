"""Changelog fragments: valid while they wait, and moved into the changelog on release."""

import importlib.util

import pytest

from docs.pages import ROOT

DIRECTORY = ROOT / "changelog.d"
CHANGELOG = """# Changelog

## [Unreleased]

Not supported yet: static pools.

### Fixed

- An older fix.

### Added

- An older feature.

## [0.1.0] - 2026-01-01

### Fixed

- The first fix.
"""


@pytest.fixture(name="tool")
def load_tool():
    spec = importlib.util.spec_from_file_location("assemble", DIRECTORY / "assemble.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


def fragments(directory, **texts):
    for name, text in texts.items():
        (directory / (name.replace("__", ".") + ".md")).write_text(text)
    return directory


def test_the_fragments_of_the_project_are_valid(tool):
    tool.read_fragments(DIRECTORY)


def test_the_changelog_of_the_project_can_be_assembled(tool):
    before = (ROOT / "CHANGELOG.md").read_text()
    after = tool.assemble(before, {"fixed": ["- A fix."]}, "[9.9.9] - 2026-01-01")
    assert {*before.splitlines()} < {*after.splitlines()}


def test_a_release_gets_the_unreleased_notes_and_the_fragments(tool, tmp_path):
    items = tool.read_fragments(
        fragments(
            tmp_path,
            budgets__fixed="Budgets hold\nacross restarts.\n",
            ports__fixed="Ports count.",
            old__removed="Old.",
        )
    )
    assert tool.assemble(CHANGELOG, items, "[0.2.0] - 2026-02-02") == (
        "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-02-02\n\nNot supported yet: static pools.\n\n"
        "### Fixed\n\n- An older fix.\n- Budgets hold\n  across restarts.\n- Ports count.\n\n"
        "### Added\n\n- An older feature.\n\n### Removed\n\n- Old.\n\n"
        "## [0.1.0] - 2026-01-01\n\n### Fixed\n\n- The first fix.\n"
    )


def test_the_first_release_needs_no_earlier_one(tool):
    assert tool.assemble("## [Unreleased]\n", {"added": ["- All."]}, "[0.1.0] - 2026-01-01") == (
        "## [Unreleased]\n\n## [0.1.0] - 2026-01-01\n\n### Added\n\n- All.\n"
    )


@pytest.mark.parametrize("name", ["budgets", "budgets__bug", "Budgets__fixed"])
def test_a_fragment_with_another_name_is_refused(tool, tmp_path, name):
    with pytest.raises(tool.InvalidFragment, match=r"SLUG\.KIND\.md"):
        tool.read_fragments(fragments(tmp_path, **{name: "Text."}))


@pytest.mark.parametrize("text", ["", "- a bullet", "## Fixed"])
def test_a_fragment_without_a_sentence_is_refused(tool, tmp_path, text):
    with pytest.raises(tool.InvalidFragment, match="without a bullet or a heading"):
        tool.read_fragments(fragments(tmp_path, budgets__fixed=text))


def test_a_release_deletes_its_fragments_and_keeps_the_guide(tool, tmp_path, monkeypatch):
    directory = tmp_path / "changelog.d"
    directory.mkdir()
    (directory / "README.md").write_text("guide")
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    monkeypatch.setattr(tool, "HERE", fragments(directory, budgets__fixed="Budgets hold."))
    monkeypatch.setattr(tool, "CHANGELOG", tmp_path / "CHANGELOG.md")
    tool.main("0.2.0")
    assert [path.name for path in directory.iterdir()] == ["README.md"]
    assert "- Budgets hold." in (tmp_path / "CHANGELOG.md").read_text()
