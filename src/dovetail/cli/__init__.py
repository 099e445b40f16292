"""The command line: one module per command."""


def main() -> None:
    """Entry point of the `dovetail` command."""
    from dovetail.cli.app import app

    app()
