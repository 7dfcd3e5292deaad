"""The app: routers, errors, documentation. Whatever is not listed as public here needs a token."""

from fastapi import FastAPI

from t9ksched import version
from t9ksched.api import openapi
from t9ksched.api.http import docs, problems
from t9ksched.api.http.middleware import Envelope
from t9ksched.api.http.overload import Overload
from t9ksched.api.http.representation import Representation
from t9ksched.api.routers import (
    about,
    audit,
    cards,
    events,
    forecasts,
    health,
    jobactions,
    joblist,
    metrics,
    nodes,
    notifications,
    pods,
    queues,
    reservations,
    reviews,
    running,
    simulations,
    snapshots,
    stops,
    timeline,
    tokens,
    usage,
    workloads,
)
from t9ksched.api.services import Services

_ROUTERS = (
    workloads.router,
    joblist.router,
    pods.router,
    queues.users,
    queues.admin,
    stops.users,
    nodes.router,
    timeline.router,
    events.router,
    usage.router,
    forecasts.router,
    snapshots.router,
    reviews.router,
    jobactions.router,
    running.router,
    simulations.router,
    audit.router,
    tokens.router,
    notifications.router,
    stops.admin,
    cards.router,
    reservations.router,
    about.router,
    about.public,
    health.router,
    metrics.router,
)
"""The most used ones first."""
DESCRIPTION = """
Queues, jobs, nodes and tokens of one cluster. Errors are `application/problem+json` with a stable `code`. Lists answer
`items` and, if there is more, `continue`. HEAD is answered wherever GET is.
"""


def create_app(services: Services) -> FastAPI:
    """The REST service on these services."""
    app = FastAPI(
        title="t9ksched",
        version=version(),
        description=DESCRIPTION.strip(),
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        redirect_slashes=False,
    )
    app.state.services = services
    app.add_middleware(Overload)
    app.add_middleware(Representation)
    app.add_middleware(Envelope)  # around the others
    problems.install(app)
    for router in _ROUTERS:
        # As routes of the app itself they are found in one pass; those of included routers are searched three times.
        app.router.routes += router.routes
    docs.install(app)
    openapi.describe(app)
    return app
