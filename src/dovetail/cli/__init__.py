"""The command line: one module a command."""


def main() -> None:
    """Entry point of the `dovetail` command."""
    from dovetail.cli.app import app

    app()
