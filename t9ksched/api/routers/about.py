"""`/apis/v1/whoami`: the token's user, and what the token is valid for. `/version`, also `/apis/v1/version`: which
release answers.
"""

from typing import Any

from fastapi import APIRouter, Depends
from starlette.responses import Response

from t9ksched import version
from t9ksched.api.auth import User, guarded
from t9ksched.api.http.parameters import known_parameters
from t9ksched.api.http.responses import answer, at, documented, problems
from t9ksched.api.schemas.accounts import WhoAmI
from t9ksched.api.schemas.service import Release
from t9ksched.api.services import Given

router = guarded("/apis/v1/whoami", "about")
_RELEASE: dict[int | str, dict[str, Any]] = {200: {"model": Release}, **problems(422, 429)}
public = APIRouter(tags=["about"], dependencies=[Depends(known_parameters)])


@router.get(
    "",
    operation_id="whoAmI",
    summary="The token's user, and what the token allows",
    responses=documented({200: WhoAmI}),
)
async def who_am_i(services: Given, caller: User) -> Response:
    return answer(
        {
            "user": caller.user,
            "role": caller.role,
            "groups": sorted(caller.groups),
            "queues": sorted(caller.queues),
            "token": caller.token,
            "expiresAt": at(caller.expires_at),
            "exec": services.exec_allowed,
        }
    )


@public.get("/version", summary="Which release answers?", responses=_RELEASE, operation_id="getVersion")
@public.get("/apis/v1/version", summary="Which release answers?", responses=_RELEASE, operation_id="getApiVersion")
async def release() -> Response:
    return answer({"version": version()})
