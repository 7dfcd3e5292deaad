"""What a kubelet asks the scheduler and the controllers, which have no service of their own while they wait to lead.

`/healthz` answers as long as the process does its work at all: one thread does everything, so whoever can answer is
alive. `/readyz` says whether the cluster answers us, so that a rollout waits for a replica that could take over.
Neither says who leads, and neither needs a secret.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from api.server import listen


@asynccontextmanager
async def probed(host: str, port: int | None, ready: Callable[[], bool]) -> AsyncIterator[str | None]:
    """Answer on that address while the block runs; without a port, do nothing. Yields the URL.

    Raises:
        PortInUse: nothing can listen there.
    """
    if port is None:
        yield None
        return

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        if ready():
            return web.Response(text="ok\n")
        return web.Response(status=503, text="the cluster has not answered about the lease of late\n")

    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    listener = listen(host, port)
    try:
        await web.SockSite(runner, listener).start()
        bound = listener.getsockname()
        yield f"http://{bound[0]}:{bound[1]}"
    finally:
        await runner.cleanup()
        listener.close()
