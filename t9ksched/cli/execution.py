"""Runs a command in a pod over the Kubernetes API, with this process's own input, output and terminal."""

import asyncio
import signal
import sys
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

from t9ksched.cli import terminals
from t9ksched.cli.failure import Failure
from t9ksched.kube.errors import ApiError
from t9ksched.kube.port import STDERR
from t9ksched.kube.resources import PODS
from t9ksched.kube.transport.config import ConfigError, connect
from t9ksched.kube.transport.exec_stream import ExecStream


async def run_in_pod(
    kubeconfig: Path,
    namespace: str,
    pod: dict[str, Any],
    query: Sequence[tuple[str, str]],
    *,
    stdin: bool,
    tty: bool,
) -> int:
    """The exit code of the command. Raises Failure when it was not run."""
    try:
        async with connect(kubeconfig) as client:
            found = await client.get(PODS, pod["name"], namespace)
            if found["metadata"].get("uid") != pod["uid"]:
                raise Failure(
                    f"The cluster of {kubeconfig} has another pod {pod['name']} than the service speaks of.",
                    remedy="Name the kubeconfig of the cluster that the service works on: --kubeconfig FILE",
                )
            async with aclosing(await client.exec(namespace, pod["name"], query)) as stream:
                return await _attached(stream, stdin=stdin, tty=tty)
    except ConfigError as error:
        raise Failure(str(error), remedy="Name another one: --kubeconfig FILE") from None
    except ApiError as error:
        raise Failure(f"The cluster of {kubeconfig} refused: {error.message}", name=error.reason) from None


async def _attached(stream: ExecStream, *, stdin: bool, tty: bool) -> int:
    """Pass on what is typed and what is written, until the command ends."""
    with terminals.raw(tty):
        tasks = [asyncio.create_task(_typed(stream))] if stdin else []
        if tty:
            await _size(stream)
            asyncio.get_running_loop().add_signal_handler(
                signal.SIGWINCH, lambda: tasks.append(asyncio.create_task(_size(stream)))
            )
        try:
            async for channel, data in stream:
                out = sys.stderr.buffer if channel == STDERR else sys.stdout.buffer
                out.write(data)
                out.flush()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    return stream.exit_code


async def _typed(stream: ExecStream) -> None:
    """Give it this process's standard input."""
    loop, parts = asyncio.get_running_loop(), asyncio.Queue[bytes]()
    terminals.typed(lambda part: loop.call_soon_threadsafe(parts.put_nowait, part))
    while part := await parts.get():
        await stream.write(part)
    await stream.end_input()


async def _size(stream: ExecStream) -> None:
    await stream.resize(*terminals.size())
