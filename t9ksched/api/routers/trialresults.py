"""`/apis/v1/workloads/…/results`: the program of an AutoTuneExperiment's trial sends results, with the trial's token.

The token is good for this one address and for nothing else, and only while the trial's job has not ended. It is known
by the hash on the job; the results are kept in an annotation of the job, where the experiment's controller finds them.
"""

import hmac
import sys
from dataclasses import replace
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials
from starlette.responses import Response

from t9ksched.api.auth import bearer, unauthenticated
from t9ksched.api.http.parameters import known_parameters
from t9ksched.api.http.problems import Problem, from_kube, invalid
from t9ksched.api.http.responses import BODY, answer, body_of, documented
from t9ksched.api.schemas.jobs import TrialResultBody, TrialResults
from t9ksched.api.services import Given, Services
from t9ksched.api.submission.kinds import addressed
from t9ksched.kube.errors import ApiError, Conflict, NotFound
from t9ksched.model.api_resource import Resource
from t9ksched.model.errors import FieldError, faulty
from t9ksched.model.job import FINISHED
from t9ksched.workloads.keypair import TOKEN_ANNOTATION, digest_of
from t9ksched.workloads.tuning.experiment import TRIAL_KINDS
from t9ksched.workloads.tuning.trials import MOST_STEPS, RESULTS_ANNOTATION, Results

_PREFIX: Final = "t9kt_"
_MOST_TOKEN: Final = 128


async def sender(credentials: Annotated[HTTPAuthorizationCredentials | None, Security(bearer)]) -> str:
    """A token that may be that of a trial.

    Raises:
        Problem: none came, or one that is none of a trial.
    """
    token = credentials.credentials if credentials is not None else ""
    if not token.startswith(_PREFIX) or len(token) > _MOST_TOKEN or not token.isascii():
        raise _refused()
    return token


router = APIRouter(
    prefix="/apis/v1/workloads/{namespace}/{kind}/{name}/results",
    tags=["workloads"],
    dependencies=[Depends(sender), Depends(known_parameters)],
)
_TRIES: Final = 5
"""Of writing beside others that change the job."""
_HIGHEST_STEP: Final = 10**9


@router.post(
    "",
    operation_id="addTrialResult",
    summary="Send a result of a trial, as its program",
    description="By the program of a trial, which has this address and its token in `T9KSCHED_RESULTS_URL` and"
    " `T9KSCHED_RESULTS_TOKEN`; no other token is taken. With `step` it is an intermediate result, one of the same step"
    f" replaces the one before, and {MOST_STEPS} are kept; without it the final one. When the trial's job has ended the"
    " token is void.",
    responses=documented({200: TrialResults}, *BODY, 409, 503),
    openapi_extra=body_of(TrialResultBody),
)
async def send(
    namespace: str,
    kind: str,
    name: str,
    request: Request,
    services: Given,
    token: Annotated[str, Depends(sender)],
) -> Response:
    whose = ":".join(("trial", request.client.host if request.client is not None else ""))
    services.allowances.request(whose)
    job, resource = await _job(services, namespace, kind, name, token)
    value, step = _result(await services.bodies.mapping(request, whose))
    for _ in range(_TRIES):
        results = _with(Results.of(job), value, step)
        notes = {RESULTS_ANNOTATION: results.written()}
        meta = {"resourceVersion": job["metadata"].get("resourceVersion"), "annotations": notes}
        try:
            await services.kube.patch(resource, name, namespace, {"metadata": meta})
        except Conflict:
            job, resource = await _job(services, namespace, kind, name, token)
            continue
        except ApiError as error:
            raise from_kube(error, f"{resource.kind}/{name}") from error
        return answer({"steps": len(results.steps), "final": results.final})
    raise Problem("Conflict", f"{resource.kind}/{name} changes all the time", remedy="send it again")


async def _job(services: Services, namespace: str, kind: str, name: str, token: str) -> tuple[dict[str, Any], Resource]:
    """The job of the trial whose token it is.

    Raises:
        Problem: the token is of no trial that goes on; what is wrong is not told, so that nobody can ask for names.
    """
    try:
        resource = addressed(kind)
    except Problem:
        raise _refused() from None
    if resource.kind not in TRIAL_KINDS:
        raise _refused()
    try:
        job = await services.kube.get(resource, name, namespace)
    except NotFound:
        raise _refused() from None
    except ApiError as error:
        raise from_kube(error, f"{resource.kind}/{name}") from error
    meta = job["metadata"]
    digest = str((meta.get("annotations") or {}).get(TOKEN_ANNOTATION) or "")
    ended = meta.get("deletionTimestamp") or (job.get("status") or {}).get("phase") in FINISHED
    if not hmac.compare_digest(digest.encode(), digest_of(token).encode()) or ended:
        raise _refused()
    return job, resource


def _refused() -> Problem:
    return unauthenticated(
        "the token is not that of a trial at this address, or the trial has ended", ', error="invalid_token"'
    )


def _result(body: dict[str, Any]) -> tuple[float, int | None]:
    """The value and the step of a body.

    Raises:
        Problem: they are none.
    """
    known = ("value", "step")
    faults = [FieldError(key, "is unknown: the fields are value and step") for key in body if key not in known]
    value, step = body.get("value"), body.get("step")
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
        faults.append(FieldError("value", f"{faulty(value, 'is no finite number')}: send the result as a number"))
    if step is not None and (isinstance(step, bool) or not isinstance(step, int) or not 0 <= step <= _HIGHEST_STEP):
        text = f"{faulty(step, 'is no step')}: use a whole number from 0 to {_HIGHEST_STEP}, or leave it out"
        faults.append(FieldError("step", text))
    if faults:
        raise invalid(faults)
    return float(value or 0), step


def _with(results: Results, value: float, step: int | None) -> Results:
    """The results with another one.

    Raises:
        Problem: there are too many.
    """
    if step is None:
        return replace(results, final=value)
    more = results.with_step(step, value)
    if len(more.steps) > MOST_STEPS:
        text = f"a trial sends at most {MOST_STEPS} intermediate results: send one in so many steps"
        raise invalid([FieldError("step", text)])
    return more
