"""The command line: one module per command."""


def main() -> None:
    """Entry point of the `dovetail` command."""
    from dovetail.cli.app import app

    app(prog_name="dovetail")


def kubectl_main() -> None:
    """Entry point of `kubectl-dovetail`, which kubectl runs as `kubectl dovetail`."""
    from dovetail.cli.app import app

    app(prog_name="kubectl dovetail")


def kubectl_complete_main() -> None:
    """Entry point of `kubectl_complete-dovetail`: prints completions of its arguments, as kubectl expects of plugins.

    The last line is a directive of kubectl's completion: `:4` means that no file names are offered.
    """
    import os
    import shlex
    import sys

    from dovetail.cli.app import app
    from dovetail.cli.safe_output import echo

    words = sys.argv[1:] or [""]
    os.environ["_DOVETAIL_COMPLETE"] = "complete_bash"
    os.environ["COMP_WORDS"] = shlex.join(["dovetail", *words])
    os.environ["COMP_CWORD"] = str(len(words))
    try:
        app(prog_name="dovetail")
    finally:
        echo(":4")
