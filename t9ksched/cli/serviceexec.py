"""A command in a pod that the service runs, with this process's own input, output and terminal."""

import base64
import json
import sys
from collections.abc import Generator
from contextlib import closing
from typing import Any

from t9ksched.cli import terminals
from t9ksched.cli.client import Client
from t9ksched.cli.failure import Failure
from t9ksched.cli.kinds import Target
from t9ksched.client.calls import Call
from t9ksched.client.conversing import Conversation


def run_by_service(
    client: Client, target: Target, rank: int | None, body: dict[str, Any], *, stdin: bool, tty: bool
) -> int:
    """The exit code of the command. Raises Failure when it was not run."""
    path = f"{target.path}/exec"
    with client.failures(path, {}):
        if stdin:
            return _shown(_conversation(client, Call("POST", path, {"rank": rank}), body, tty=tty))
        return _shown(_lines(client, Call("POST", path, {"rank": rank}, json.dumps(body).encode())))


def _lines(client: Client, call: Call) -> Generator[dict[str, Any], None, None]:
    rest = b""
    for part in client.transport.stream(call):
        *lines, rest = (rest + part).split(b"\n")
        yield from (json.loads(line) for line in lines if line)


def _conversation(
    client: Client, call: Call, body: dict[str, Any], *, tty: bool
) -> Generator[dict[str, Any], None, None]:
    """What the service tells of the command, to which this process's input goes."""
    talk = Conversation(client.server, client.token, call)

    def take(part: bytes) -> None:
        talk.say({"stdin": base64.b64encode(part).decode()} if part else {"end": True})

    if tty:
        columns, rows = terminals.size()
        body = body | {"terminal": True, "columns": columns, "rows": rows}
    try:
        talk.begin(body)
        with terminals.raw(tty):
            if tty:
                terminals.resized(lambda columns, rows: talk.say({"columns": columns, "rows": rows}))
            terminals.typed(take)
            yield from talk.answer()
    finally:
        talk.close()


def _shown(told: Generator[dict[str, Any], None, None]) -> int:
    """Write what the command writes; its exit code."""
    with closing(told):
        for line in told:
            if line.get("error"):
                raise Failure(f"The command broke off: {line['error']}")
            if "exitCode" in line:
                return int(line["exitCode"])
            out = sys.stderr.buffer if line["stream"] == "stderr" else sys.stdout.buffer
            out.write(base64.b64decode(line["data"]))
            out.flush()
    raise Failure("The service left before the command ended.")
