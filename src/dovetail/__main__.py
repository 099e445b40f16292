"""`python -m dovetail` is the same as `dovetail`."""

from dovetail.cli import main

main()
