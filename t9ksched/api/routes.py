"""The routes of REST by the module that has them. A replica makes all of them when it starts; a service that shall be
there soon makes those of a module when a request for one of its paths comes, which takes that request milliseconds.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final, NamedTuple

from fastapi import FastAPI
from fastapi import routing as fastapi_routing
from starlette.types import ASGIApp, Receive, Scope, Send


class Part(NamedTuple):
    """A module of `t9ksched.api.routers`.

    Attributes:
        starts: every path of its routes starts with one of these.
        has: what is in every path of its routes.
        routers: the names of its routers.
    """

    module: str
    starts: tuple[str, ...]
    has: str = ""
    routers: tuple[str, ...] = ("router",)

    def serves(self, path: str) -> bool:
        """Whether it may have a route of this path."""
        return path.startswith(self.starts) and self.has in path


JOBS: Final = "/apis/v1/workloads"
PARTS: Final = (
    Part("workloads", (JOBS,)),
    Part("joblist", (JOBS,)),
    Part("pods", (f"{JOBS}/",)),
    Part("queues", ("/apis/v1/queues", "/apis/v1/admin/queues"), routers=("users", "admin")),
    Part("stops", ("/apis/v1/stops",), routers=("users",)),
    Part("nodes", ("/apis/v1/nodes",)),
    Part("timeline", ("/apis/v1/timeline",)),
    Part("events", ("/apis/v1/events",)),
    Part("usage", ("/apis/v1/usage",)),
    Part("forecasts", ("/apis/v1/forecast-accuracy",)),
    Part("snapshots", ("/apis/v1/admin/snapshot",)),
    Part("reviews", ("/apis/v1/access-reviews",)),
    Part("jobactions", (f"{JOBS}/",), "/actions/"),
    Part("running", (f"{JOBS}/",), "/actions/"),
    Part("trialresults", (f"{JOBS}/",), "/results"),
    Part("simulations", ("/apis/v1/simulate",)),
    Part("audit", ("/apis/v1/admin/audit",)),
    Part("tokens", ("/apis/v1/admin/tokens",)),
    Part("notifications", ("/apis/v1/notifications",)),
    Part("stops", ("/apis/v1/admin/stops/",), routers=("admin",)),
    Part("cards", ("/apis/v1/admin/nodes/",), "/cards/"),
    Part("reservations", ("/apis/v1/admin/reservations",)),
    Part("about", ("/apis/v1/whoami", "/apis/v1/version", "/version"), routers=("router", "public")),
    Part("health", ("/healthz", "/readyz")),
    Part("metrics", ("/metrics",)),
)
"""The most used ones first."""


_PYDANTIC_1: Final = "pydantic.v1"


@contextmanager
def _without_pydantic_1() -> Iterator[None]:
    """In the block it cannot be imported. FastAPI asks of the shapes of each route whether they are of Pydantic 1, and
    to load that takes as long as all routes: none is here.
    """
    if _PYDANTIC_1 in sys.modules:
        yield
        return
    sys.modules[_PYDANTIC_1] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[_PYDANTIC_1]


def _locate(endpoint: Callable[..., Any]) -> None:
    """Tell FastAPI where the function of a route is. It asks with the first request for each, for what it says of a
    fault there, and reads and parses the source for it: 50 ms for the first, 5 to 20 for others.
    """
    places: dict[int, dict[str, Any]] = getattr(fastapi_routing, "_endpoint_context_cache", {})
    code = endpoint.__code__
    places[id(endpoint)] = {"file": code.co_filename, "line": code.co_firstlineno, "function": endpoint.__name__}


class Routes:
    """The routes of an app that are there, and those that are not yet."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._left = list(PARTS)

    def make(self, path: str | None = None) -> None:
        """Make those that may be of this path; all that are left without one."""
        for part in [part for part in self._left if path is None or part.serves(path)]:
            with _without_pydantic_1():
                module: Any = import_module(f"t9ksched.api.routers.{part.module}")
            for name in part.routers:
                # As routes of the app itself they are found in one pass; those of included routers are searched three
                # times.
                routes = getattr(module, name).routes
                for route in routes:
                    _locate(route.endpoint)
                self._app.router.routes += routes
            self._left.remove(part)

    @property
    def complete(self) -> bool:
        """Whether all are there."""
        return not self._left


class MadeWhenAsked:
    """Between an app and its router: makes the routes of a request's path."""

    def __init__(self, app: ASGIApp, routes: Routes) -> None:
        self._app, self._routes = app, routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "http" and not self._routes.complete:
            self._routes.make(None if scope.get("root_path") else scope["path"])
        await self._app(scope, receive, send)


def describe_when_asked(app: FastAPI, routes: Routes) -> None:
    """The document of the app needs all its routes, and shapes that nothing else does."""
    generate: Callable[[], dict[str, Any]] = app.openapi

    def openapi() -> dict[str, Any]:
        from t9ksched.api.openapi import describe

        routes.make()
        app.openapi = generate  # type: ignore[method-assign]
        describe(app)
        return app.openapi()

    app.openapi = openapi  # type: ignore[method-assign]
