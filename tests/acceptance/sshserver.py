"""An sshd for the workers of a job on one machine: it listens at the address of its own pod, not at all of them.

It takes the options that controllers give (`-p`, `-h`, `-o AuthorizedKeysFile=…`), lets in who has a key of that file,
and runs commands as its own user does. Without `-D` it goes on in the background.
"""

import asyncio
import os
import socket
import sys
from itertools import pairwise

import asyncssh


async def run(process: "asyncssh.SSHServerProcess[bytes]") -> None:
    """One command of a client."""
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), asyncio.subprocess.PIPE)
    running = await asyncio.create_subprocess_shell(process.command or "true", **streams)
    await process.redirect(running.stdin, running.stdout, running.stderr)
    code = await running.wait()
    await process.stdout.drain()
    process.exit(code if code >= 0 else 128 - code)
    await process.wait_closed()


async def serve(words: list[str]) -> None:
    settings = dict(word.split("=", 1) for flag, word in pairwise(words) if flag == "-o")
    options = {flag: word for flag, word in pairwise(words) if flag in ("-p", "-h")}
    server = await asyncssh.listen(
        socket.gethostbyname(os.environ["HOSTNAME"]),
        int(options["-p"]),
        server_host_keys=[options["-h"]],
        authorized_client_keys=settings["AuthorizedKeysFile"],
        process_factory=run,
        encoding=None,
    )
    await server.wait_closed()


if __name__ == "__main__":
    if "-D" not in sys.argv and os.fork():
        os._exit(0)
    asyncio.run(serve(sys.argv[1:]))
