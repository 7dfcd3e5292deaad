"""`t9ksched exec`: a command in a pod of a job, with the kubeconfig of the user; where there is none, by the service,
if its administrator lets it.
"""

import asyncio
import base64
import json
import sys
from typing import Annotated, Any

import typer

from t9ksched.cli.client import Client
from t9ksched.cli.failure import BAD_USAGE, Failure
from t9ksched.cli.kinds import Target, parse_target
from t9ksched.cli.options import NamespaceOption, Service, data_dir_of, with_service
from t9ksched.cli.podaccess import KubeconfigOption, chosen_pod, kubeconfig_of
from t9ksched.client.calls import Call


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
    `pods/exec`. Without a kubeconfig the service runs it, where its administrator lets it, without a terminal.
    """
    wanted = parse_target(target, namespace)
    if tty and not (stdin and sys.stdin.isatty()):
        text = "-t needs -i, and a terminal." if sys.stdin.isatty() else "-t needs a terminal, and this is none."
        raise Failure(text, remedy="Leave out -t.", code=BAD_USAGE)
    client = service()
    config = kubeconfig_of(kubeconfig, data_dir_of(service), needed=tty)
    pod = chosen_pod(client.get(f"{wanted.path}/pods")["items"], wanted, rank, container)
    if config is None:
        body = {"command": command} | ({"container": container} if container else {})
        raise typer.Exit(_by_service(client, wanted, rank, body, stdin=stdin))
    from t9ksched.cli.execution import run_in_pod

    query = [("command", word) for word in command]
    query += [("container", container or pod["containers"][0]), ("stdout", "true")]
    query += [(name, "true") for name, given in (("stdin", stdin), ("tty", tty), ("stderr", not tty)) if given]
    code = asyncio.run(run_in_pod(config, wanted.namespace, pod, query, stdin=stdin, tty=tty))
    sys.stdout.flush()
    raise typer.Exit(code)


def _by_service(client: Client, target: Target, rank: int | None, body: dict[str, Any], *, stdin: bool) -> int:
    """The exit code of a command that the service runs. Raises Failure when it does not run it."""
    if stdin:
        body["stdin"] = sys.stdin.read()
    path = f"{target.path}/exec"
    call = Call("POST", path, {"rank": rank}, json.dumps(body).encode())
    rest = b""
    with client.failures(path, {}):
        for part in client.transport.stream(call):
            *lines, rest = (rest + part).split(b"\n")
            for told in map(json.loads, lines):
                if told.get("error"):
                    raise Failure(f"The command broke off: {told['error']}")
                if "exitCode" in told:
                    return int(told["exitCode"])
                out = sys.stderr.buffer if told["stream"] == "stderr" else sys.stdout.buffer
                out.write(base64.b64decode(told["data"]))
                out.flush()
    raise Failure("The service left before the command ended.")
