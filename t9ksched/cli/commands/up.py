"""`t9ksched up`: everything in one process."""

from pathlib import Path
from typing import Annotated

import typer

from t9ksched.cli.options import DataDirOption, OutputOption
from t9ksched.cli.output import Output


def up(
    nodes: Annotated[
        str,
        typer.Option("--nodes", metavar="PRESET|FILE", help="The dev cluster: demo, small, large, or a file of nodes."),
    ] = "demo",
    db: Annotated[
        str | None,
        typer.Option(
            "--db", envvar="T9KSCHED_DB", metavar="URL", help="A database (default: SQLite in the data directory)."
        ),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Where REST answers; 0 takes a free one.")
    ] = 8080,
    kubeconfig: Annotated[
        Path | None, typer.Option("--kubeconfig", metavar="PATH", help="Use this cluster instead of the dev cluster.")
    ] = None,
    data_dir: DataDirOption = None,
    output: OutputOption = Output.table,
) -> None:
    """Start everything in one process: a dev cluster (unless a kubeconfig is given), scheduler, controllers, REST."""
    from t9ksched.cli.runtime import serve

    serve(nodes=nodes, db=db, port=port, kubeconfig=kubeconfig, data_dir=data_dir, output=output)
