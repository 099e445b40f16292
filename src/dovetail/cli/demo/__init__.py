"""The `dovetail demo` command: a scenario played live, with a decision feed. How it is drawn is in `cli.view`."""
