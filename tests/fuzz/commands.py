"""Commands run in this process: their exit code, and that what they print is safe to show and says what is wrong."""

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from typer.main import get_command

from dovetail.cli.app import app


@cache
def _command():
    return get_command(app)


class _Stream(io.TextIOWrapper):
    """Standard output that is not a terminal."""

    def __init__(self):
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)

    @property
    def text(self) -> str:
        return self.buffer.getvalue().decode()


def run_command(*arguments: str) -> tuple[int, str, str]:
    """Exit code, output and errors. Exceptions other than an exit are raised."""
    out, err = _Stream(), _Stream()
    code = 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            _command().main([*arguments], prog_name="dovetail", standalone_mode=True)
        except SystemExit as ending:
            code = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
    return code, out.text, err.text


def check_command(*arguments: str, file: str = "") -> None:
    """Run a command; with exit code 2 it names the file that it could not use."""
    code, out, err = run_command(*arguments)
    assert code in (0, 1, 2), f"exit code {code}"
    unsafe = {each for each in out + err if not each.isprintable() and each not in "\n\t"}
    assert not unsafe, f"not safe to show: {unsafe}"
    assert "Traceback" not in err, err
    if code == 2:
        assert err.strip(), "exit code 2 without a reason"
        assert not file or file in err, f"the file is not named: {err[:500]}"


def with_file(name: str, content: bytes, *arguments: str) -> None:
    """Run a command on a file of this content; FILE among the arguments stands for it."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        check_command(*(str(path) if each == "FILE" else each for each in arguments), file=name)


assert sys.flags.optimize == 0, "properties are assertions"
