"""Query parameters: one that a question does not know is refused, for a misspelt filter would answer with too much."""

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from api.problems import invalid
from t9ksched.admission.oddities import nearest
from t9ksched.model.errors import FieldError


async def known_parameters(request: Request) -> None:
    """Refuse what a GET was asked with and does not read.

    Raises:
        Problem: `InvalidField` with the parameters, each with the nearest that there is.
    """
    route = request.scope.get("route")
    if request.method != "GET" or not request.query_params or not isinstance(route, APIRoute):
        return
    known = sorted(_read(route.dependant))
    faults = [_fault(name, known) for name in request.query_params if name not in known]
    if faults:
        raise invalid(faults)


def _read(dependant: Dependant) -> set[str]:
    """The parameters that an endpoint and what it depends on read."""
    found = {field.alias for field in dependant.query_params}
    return found.union(*(_read(one) for one in dependant.dependencies))


def _fault(name: str, known: list[str]) -> FieldError:
    if (near := nearest(name, known)) is not None:
        hint = f"did you mean {near}?"
    elif known:
        hint = f"the parameters are {', '.join(known)}"
    else:
        hint = "there are no parameters here"
    return FieldError(f"query.{name}", f"is unknown: {hint}")
