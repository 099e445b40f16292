"""Log messages never vary, so that they can be searched and counted; what varies is in the fields."""

import ast
import logging
from pathlib import Path

SOURCES = sorted((Path(__file__).parents[2] / "src").rglob("*.py"))
TO_PEOPLE = {"one_shot_snapshot.py"}  # read once by a command, so its lines go to a terminal, without fields
LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}
TAKEN = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def log_calls():
    for path in (each for each in SOURCES if each.name not in TO_PEOPLE):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in LEVELS
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id in {"log", "_log", "logger", "logging"}
            ):
                yield f"{path.name}:{node.lineno}", node


def test_there_are_log_lines_to_look_at():
    assert len(list(log_calls())) > 30


def constant(message):
    """A literal, one of two literals, or a name for one; nothing put together from what varies."""
    if isinstance(message, ast.IfExp):
        return constant(message.body) and constant(message.orelse)
    if isinstance(message, ast.Constant):
        return isinstance(message.value, str) and not {"%", "{"} & set(message.value)
    return isinstance(message, ast.Name | ast.Attribute)


def test_no_log_call_formats_its_message():
    varying = [where for where, call in log_calls() if len(call.args) != 1 or not constant(call.args[0])]
    assert varying == []


def test_no_field_hides_one_of_the_record_itself():
    hidden = []
    for where, call in log_calls():
        for keyword in call.keywords:
            if keyword.arg == "extra" and isinstance(keyword.value, ast.Dict):
                names = {key.value for key in keyword.value.keys if isinstance(key, ast.Constant)}
                hidden += [(where, name) for name in names & TAKEN]
    assert hidden == []
