"""The pages that a kubelet and Prometheus request from the scheduler and the controllers, waiting to lead or leading.
`/healthz` answers as long as the process works at all: one thread does everything, so a process that answers is alive.
`/readyz` says whether the cluster answers this process, so that a rollout waits for a replica that could take over.
Neither says which process leads. The scheduler answers `/metrics` too. None of them needs a secret.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import structlog
from aiohttp import web

from t9ksched.scheduler.report.families import OPENMETRICS, TEXT, negotiated
from t9ksched.serving import ConnectionLimits, listen
from t9ksched.serving.aiohttp_site import AcceptingSite, accounted, app_runner

_log = structlog.get_logger()
_LIMITS: Final = ConnectionLimits(connections=64, per_address=64)
"""A kubelet and a few that read metrics."""
Page = Callable[[bool], Awaitable[bytes]]
"""Makes the metrics page, as OpenMetrics or in the text format of Prometheus."""


@asynccontextmanager
async def probed(
    host: str, port: int | None, ready: Callable[[], bool], page: Page | None = None
) -> AsyncIterator[str | None]:
    """Answer on that address while the block runs; without a port, do nothing. Yields the URL. `page` is `/metrics`.

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

    async def metrics(request: web.Request) -> web.Response:
        assert page is not None
        openmetrics = negotiated(request.headers.get("Accept", ""))
        return web.Response(
            body=await page(openmetrics), headers={"Content-Type": OPENMETRICS if openmetrics else TEXT}
        )

    app = web.Application(middlewares=[accounted])
    app.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz)])
    if page is not None:
        app.add_routes([web.get("/metrics", metrics)])
    runner = app_runner(app)
    await runner.setup()
    listener = listen(host, port)
    try:
        await AcceptingSite(runner, listener, _LIMITS, "probes").start()
        bound = listener.getsockname()
        url = f"http://{bound[0]}:{bound[1]}"
        _log.info("probes", url=url)
        yield url
    finally:
        await runner.cleanup()
        listener.close()
