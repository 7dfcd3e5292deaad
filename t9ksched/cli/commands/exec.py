"""`t9ksched exec`: a command in a pod of a job, with the kubeconfig of the user; where there is none, by the service,
if its administrator lets it.
"""

import asyncio
import sys
from typing import Annotated

import typer

from t9ksched.cli.failure import BAD_USAGE, Failure
from t9ksched.cli.kinds import parse_target
from t9ksched.cli.options import NamespaceOption, Service, data_dir_of, with_service
from t9ksched.cli.podaccess import KubeconfigOption, chosen_pod, kubeconfig_of


@with_service
def exec_(
    service: Service,
    target: Annotated[str, typer.Argument(metavar="KIND/NAME", help="Such as pj/resnet.")],
    command: Annotated[list[str], typer.Argument(metavar="-- CMD…", help="What is run, such as `-- nvidia-smi`.")],
    rank: Annotated[
        int | None, typer.Option("--rank", metavar="N", min=0, help="In which pod (default: the first).")
    ] = None,
    container: Annotated[
        str | None, typer.Option("-c", "--container", metavar="NAME", help="Which one (default: the main one).")
    ] = None,
    stdin: Annotated[bool, typer.Option("-i", "--stdin", help="Give it standard input.")] = False,
    tty: Annotated[bool, typer.Option("-t", "--tty", help="Give it a terminal, for a shell: -it -- sh.")] = False,
    kubeconfig: KubeconfigOption = None,
    namespace: NamespaceOption = "default",
) -> None:
    """Run a command in a pod of a job that runs. Exits as the command does. The cluster must let you `create`
    `pods/exec`. Without a kubeconfig the service runs it, where its administrator lets it.
    """
    wanted = parse_target(target, namespace)
    if tty and not (stdin and sys.stdin.isatty()):
        text = "-t needs -i, and a terminal." if sys.stdin.isatty() else "-t needs a terminal, and this is none."
        raise Failure(text, remedy="Leave out -t.", code=BAD_USAGE)
    client = service()
    config = kubeconfig_of(kubeconfig, data_dir_of(service), needed=False)
    pod = chosen_pod(client.get(f"{wanted.path}/pods")["items"], wanted, rank, container)
    if config is None:
        body = {"command": command} | ({"container": container} if container else {})
        from t9ksched.cli.serviceexec import run_by_service

        raise typer.Exit(run_by_service(client, wanted, rank, body, stdin=stdin, tty=tty))
    from t9ksched.cli.execution import run_in_pod

    query = [("command", word) for word in command]
    query += [("container", container or pod["containers"][0]), ("stdout", "true")]
    query += [(name, "true") for name, given in (("stdin", stdin), ("tty", tty), ("stderr", not tty)) if given]
    code = asyncio.run(run_in_pod(config, wanted.namespace, pod, query, stdin=stdin, tty=tty))
    sys.stdout.flush()
    raise typer.Exit(code)
