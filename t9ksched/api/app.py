"""The app: routes, errors, documentation. Whatever is not listed as public there needs a token."""

from fastapi import FastAPI

from t9ksched import version
from t9ksched.api.http import docs, problems
from t9ksched.api.http.middleware import Envelope
from t9ksched.api.http.overload import Overload
from t9ksched.api.http.representation import Representation
from t9ksched.api.routes import MadeWhenAsked, Routes, describe_when_asked
from t9ksched.api.services import Services

DESCRIPTION = """
Queues, jobs, nodes and tokens of one cluster. Errors are `application/problem+json` with a stable `code`. Lists answer
`items` and, if there is more, `continue`. HEAD is answered wherever GET is.
"""


def create_app(services: Services, *, at_once: bool = True) -> FastAPI:
    """The REST service on these services. Routes that are not made `at_once` are made when they are asked for."""
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
    routes = Routes(app)
    if at_once:
        routes.make()
    else:
        app.add_middleware(MadeWhenAsked, routes=routes)
    app.add_middleware(Overload)
    app.add_middleware(Representation)
    app.add_middleware(Envelope)  # around the others
    problems.install(app)
    docs.install(app)
    describe_when_asked(app, routes)
    return app
