"""`t9ksched scheduler`, `controller` and `api`: one role a process, as on a cluster.

They are configured by `T9KSCHED_…` variables, as deployments are; the options here are those worth typing.
"""

from pathlib import Path
from typing import Annotated

import typer

from t9ksched.cli.heap import loading
from t9ksched.cli.options import SchedulerConfOption

KubeconfigOption = Annotated[
    Path | None,
    typer.Option(
        "--kubeconfig",
        envvar="T9KSCHED_KUBECONFIG",
        metavar="PATH",
        help="The cluster (default: as kubectl finds it, or the pod's service account).",
    ),
]
DbOption = Annotated[
    str | None,
    typer.Option("--db", envvar="T9KSCHED_DB", metavar="URL", help="The PostgreSQL database all roles share."),
]
HostOption = Annotated[
    str | None, typer.Option("--host", envvar="T9KSCHED_HOST", metavar="HOST", help="The address to listen on.")
]
PortOption = Annotated[
    int | None, typer.Option("--port", envvar="T9KSCHED_PORT", min=0, max=65535, help="The port to listen on.")
]


LeaderElectOption = Annotated[
    str | None,
    typer.Option(
        "--leader-elect",
        envvar="T9KSCHED_LEADER_ELECT",
        metavar="true|false",
        help="Wait for the lease (default: true); with false it works at once and must be the only one.",
    ),
]
VerbosityOption = Annotated[
    int | None,
    typer.Option("--v", min=0, metavar="N", help="How much is logged, as in Kubernetes: 4 and more is debug."),
]
_DEBUG_FROM = 4


def scheduler(
    kubeconfig: KubeconfigOption = None,
    db: DbOption = None,
    scheduler_conf: SchedulerConfOption = None,
    leader_elect: LeaderElectOption = None,
    v: VerbosityOption = None,
) -> None:
    """Run the scheduler alone. Of several, the one that holds the lease t9k-system/t9k-scheduler works."""
    level = None if v is None else "debug" if v >= _DEBUG_FROM else "info"
    given = {"scheduler_conf": scheduler_conf, "leader_elect": leader_elect, "log_level": level}
    _run("scheduler", kubeconfig=kubeconfig, db=db, **given)


def controller(kubeconfig: KubeconfigOption = None) -> None:
    """Run the job controllers alone. Of several, the one that holds the lease t9k-system/t9ksched-controller works."""
    _run("controller", kubeconfig=kubeconfig)


def api(
    kubeconfig: KubeconfigOption = None, db: DbOption = None, host: HostOption = None, port: PortOption = None
) -> None:
    """Run the REST service alone; any number may run."""
    _run("api", kubeconfig=kubeconfig, db=db, host=host, port=port)


def _run(role: str, **given: object) -> None:
    with loading():
        from t9ksched.cli import roles
        from t9ksched.cli.foreign import failures
        from t9ksched.cli.logs import configure
        from t9ksched.cli.process import run_until_stopped
        from t9ksched.model.resources import add_card_resources
    from t9ksched.settings import Settings

    with failures():
        settings = Settings.load(**{name: value for name, value in given.items() if value is not None})
        configure(settings)
        add_card_resources(*settings.card_resources)
        raise typer.Exit(run_until_stopped(getattr(roles, role)(settings)))
