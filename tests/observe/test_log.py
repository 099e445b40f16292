import io
import json
import logging
from datetime import UTC, datetime

import pytest

from dovetail.observe.log import LogOutputs, LogSettings, configure


class Noon:
    def now(self):
        return datetime(2026, 1, 5, 12, tzinfo=UTC)


@pytest.fixture
def stream():
    """A stream to log to; whatever was configured is taken down afterwards."""
    root, ours = logging.getLogger(), logging.getLogger("dovetail")
    before = root.level, ours.level, list(root.handlers)
    yield io.StringIO()
    root.setLevel(before[0])
    ours.setLevel(before[1])
    for handler in [each for each in root.handlers if each not in before[2]]:
        root.removeHandler(handler)


log = logging.getLogger("dovetail.test")


def test_a_json_line_carries_message_and_fields(stream):
    configure(LogSettings(), stream, Noon())
    log.info("node launched", extra={"nodeclaim": "a", "price": 0.1})
    assert json.loads(stream.getvalue()) == {
        "time": "2026-01-05T12:00:00.000Z",
        "level": "info",
        "logger": "dovetail.test",
        "message": "node launched",
        "nodeclaim": "a",
        "price": 0.1,
    }


def test_an_exception_stays_on_its_line(stream):
    configure(LogSettings(), stream, Noon())
    try:
        int("broken")
    except ValueError:
        log.exception("it failed")
    (line,) = stream.getvalue().splitlines()
    assert "ValueError: invalid literal" in json.loads(line)["exception"]


def test_text_quotes_what_needs_quotes(stream):
    configure(LogSettings(form="text"), stream, Noon())
    log.warning("pod waits", extra={"pod": "default/web", "why": "no room"})
    assert stream.getvalue() == '2026-01-05T12:00:00.000Z WARNING pod waits pod=default/web why="no room"\n'


def test_levels_hold_for_us_and_other_libraries_only_warn(stream):
    configure(LogSettings(level="debug"), stream, Noon())
    log.debug("seen")
    logging.getLogger("other").info("unseen")
    logging.getLogger("other").warning("heard")
    assert [json.loads(line)["message"] for line in stream.getvalue().splitlines()] == ["seen", "heard"]


def test_configuring_again_replaces_the_stream(stream):
    configure(LogSettings(), io.StringIO())
    configure(LogSettings(), stream)
    log.info("once")
    assert len(stream.getvalue().splitlines()) == 1


def test_an_unknown_level_is_refused(stream):
    with pytest.raises(ValueError, match="use one of debug"):
        configure(LogSettings(level="loud"), stream)


def test_lines_go_to_every_output_and_files_are_appended_to(stream, tmp_path, capsys):
    path = tmp_path / "dovetail.log"
    path.write_text("before\n", encoding="utf-8")
    outputs = LogOutputs(f"stdout, stderr,{path}")
    configure(LogSettings(form="text"), outputs, Noon())
    log.info("node launched")
    outputs.close()
    line = "2026-01-05T12:00:00.000Z INFO    node launched\n"
    assert tuple(capsys.readouterr()) == (line, line)
    assert path.read_text(encoding="utf-8") == f"before\n{line}"


def test_an_empty_list_of_outputs_is_stderr(stream, capsys):
    configure(LogSettings(form="text"), LogOutputs(","), Noon())
    log.info("node launched")
    assert "node launched" in capsys.readouterr().err
