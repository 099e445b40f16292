"""Log messages never vary, so that they can be searched and counted; what varies is in the fields."""

import ast
import logging
from pathlib import Path

SOURCES = sorted((Path(__file__).parents[2] / "src").rglob("*.py"))
LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}
TAKEN = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def log_calls():
    for path in SOURCES:
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


def test_every_log_message_is_constant():
    varying = [
        where
        for where, call in log_calls()
        if len(call.args) != 1 or not isinstance(call.args[0], ast.Constant) or not isinstance(call.args[0].value, str)
    ]
    assert varying == []


def test_messages_leave_what_varies_to_the_fields():
    odd = [where for where, call in log_calls() if "%" in call.args[0].value or "{" in call.args[0].value]
    assert odd == []


def test_no_field_hides_one_of_the_record_itself():
    hidden = []
    for where, call in log_calls():
        for keyword in call.keywords:
            if keyword.arg == "extra" and isinstance(keyword.value, ast.Dict):
                names = {key.value for key in keyword.value.keys if isinstance(key, ast.Constant)}
                hidden += [(where, name) for name in names & TAKEN]
    assert hidden == []
