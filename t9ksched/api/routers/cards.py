"""`/apis/v1/admin/nodes/{name}/cards/{index}`: take one card of a node out of work, or let it take work again.
Pods that hold it keep it.

What is on record can be changed while the node is away. A card that is not on record must exist, which the leader says.
"""

from typing import Annotated

from fastapi import Path, Request
from starlette.responses import Response

from t9ksched.api.auth import Admin, guarded
from t9ksched.api.http.problems import Problem, invalid
from t9ksched.api.http.responses import BODY, Json, answer, at, body_of, documented
from t9ksched.api.schemas.nodes import CardBody, CardShape
from t9ksched.api.services import Given, Services
from t9ksched.model.cardmode import WHOLE
from t9ksched.model.errors import FieldError, Invalid
from t9ksched.model.names import CORDONED_CARDS_ANNOTATION
from t9ksched.model.node import LARGEST_INDEX
from t9ksched.model.resources import is_card_resource

router = guarded("/apis/v1/admin/nodes", "nodes")

Index = Annotated[int, Path(ge=0, le=LARGEST_INDEX, description="Of the card, counted from 0")]


@router.put(
    "/{name}/cards/{index}",
    operation_id="setCard",
    summary="Cordon one card of a node, or let it take work again",
    responses=documented({200: CardShape}, 400, 403, 404, 409, *BODY, 422, 503),
    openapi_extra=body_of(CardBody),
)
async def put(name: str, index: Index, request: Request, services: Given, caller: Admin) -> Response:
    cordoned, why = _parse(await services.bodies.mapping(request, caller.user))
    known = await services.store.card_cordons.get(name, index)
    if known is None:
        listed = await _card(services, name, index)
        if listed and not cordoned:
            raise Problem(
                "Conflict",
                f"the annotation {CORDONED_CARDS_ANNOTATION} of the node {name!r} names the card {index}, and is not on"
                " record yet",
                remedy="repeat it in a few seconds, or edit the annotation",
            )
    if not cordoned:
        await services.store.card_cordons.uncordon(name, index, caller.user)
        return answer({"node": name, "index": index, "cordoned": False, "why": "", "by": None, "at": None})
    made = await services.store.card_cordons.cordon(name, index, why, caller.user)
    shape = {"node": name, "index": index, "cordoned": True, "why": made.why, "by": made.by, "at": at(made.at)}
    return answer(shape)


def _parse(body: Json) -> tuple[bool, str]:
    known = CardBody.model_fields
    faults = [FieldError(key, f"is unknown: the fields are {', '.join(known)}") for key in body if key not in known]
    cordoned, why = body.get("cordoned"), body.get("why")
    if not isinstance(cordoned, bool):
        faults.append(FieldError("cordoned", "must be true or false"))
    why = "" if why is None else why
    if not isinstance(why, str) or len(why) > 1000:
        faults.append(FieldError("why", "must be a text of at most 1000 characters"))
    elif why and cordoned is False:
        faults.append(FieldError("why", "goes with cordoned: true"))
    if faults:
        raise Invalid(faults)
    return cordoned is True, why.strip()


async def _card(services: Services, name: str, index: int) -> bool:
    """Whether the card is cordoned now.

    Raises:
        Problem: there is no such node, or it has no such card.
    """
    node = await services.leader.node(name)
    if node is None:
        raise Problem("NotFound", f"there is no node {name!r}", remedy="GET /apis/v1/nodes lists those there are")
    gpus = [card for card in node["gpus"] if card["index"] == index]
    if gpus:
        return any(card["cordoned"] for card in gpus)
    whole = node["mode"] == WHOLE
    cards = max(
        [card["index"] + 1 for card in node["gpus"]]
        + [one["has"] for one in node["counted"] if whole and is_card_resource(one["resource"])],
        default=0,
    )
    if index < cards:
        return False
    if cards:
        has = "1 card, of index 0" if cards == 1 else f"{cards} cards, of indices 0 to {cards - 1}"
    else:
        has = "no whole cards" + (f": its mode is {node['mode']}" if node["mode"] else "")
    raise invalid([FieldError("index", f"there is no card {index}: the node {name!r} has {has}")])
