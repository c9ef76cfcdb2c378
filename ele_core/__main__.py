"""`python -m ele_core` is the `ele` command."""

from ele_core.cli import main

main()
