"""The tree: the architecture page lists every module, and no two classes share a public name."""

import ast
from collections import defaultdict

from architecture.modules import PAGE, SOURCES, module_table, table_in


def test_the_architecture_page_lists_every_module():
    assert table_in(PAGE.read_text()) == module_table(), "run `make generate`"


def test_no_public_class_name_exists_twice():
    modules = defaultdict(list)
    for path in SOURCES.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules[node.name].append(str(path.relative_to(SOURCES)))
    assert {name: places for name, places in modules.items() if len(places) > 1} == {}
