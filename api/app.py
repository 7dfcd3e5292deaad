"""The app: routers, errors, documentation. Whatever is not listed as public here needs a token."""

from fastapi import FastAPI

from api.http import docs, problems
from api.http.middleware import Envelope
from api.http.overload import Overload
from api.http.representation import Representation
from api.routers import (
    about,
    audit,
    cards,
    forecasts,
    health,
    jobactions,
    metrics,
    nodes,
    queues,
    reservations,
    reviews,
    simulations,
    snapshots,
    stops,
    timeline,
    tokens,
    usage,
    workloads,
)
from api.schemas import (
    AccessQuestion,
    CardBody,
    MembersBody,
    PriorityBody,
    ProblemShape,
    QueueBody,
    QueueChange,
    ReservationBody,
    ReservationChange,
    Shape,
    SimulationBody,
    StopBody,
    TokenBody,
    UpdateBody,
)
from api.services import Services
from t9ksched import version

_BODIES = (
    ProblemShape,
    QueueBody,
    QueueChange,
    MembersBody,
    ReservationBody,
    ReservationChange,
    AccessQuestion,
    PriorityBody,
    UpdateBody,
    StopBody,
    CardBody,
    TokenBody,
    SimulationBody,
    Shape,
)
_ROUTERS = (
    workloads.router,
    queues.users,
    queues.admin,
    stops.users,
    nodes.router,
    timeline.router,
    usage.router,
    forecasts.router,
    snapshots.router,
    reviews.router,
    jobactions.router,
    simulations.router,
    audit.router,
    tokens.router,
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
Queues, jobs, nodes and tokens of one cluster. Errors are `application/problem+json` with a stable `code`.
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
    _describe(app)
    return app


def _describe(app: FastAPI) -> None:
    """Add to the OpenAPI document the shapes that endpoints refer to but FastAPI does not see."""
    generate = app.openapi

    def openapi() -> dict[str, object]:
        document = generate()
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        for model in _BODIES:
            described = model.model_json_schema(ref_template="#/components/schemas/{model}")
            schemas.update(described.pop("$defs", {}))
            schemas[model.__name__] = described
        for path in document["paths"].values():
            for operation in path.values():
                # FastAPI adds its own shape of 422; ours are problems.
                if "HTTPValidationError" in str(operation["responses"].get("422")):
                    operation["responses"].pop("422")
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        return document

    app.openapi = openapi  # type: ignore[method-assign]
