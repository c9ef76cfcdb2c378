"""`ele tune`: placeholder."""

import click


@click.command()
def tune() -> None:
    """Tune."""
