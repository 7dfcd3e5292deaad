"""`t9ksched nodes NODE cordon --gpu 3` and `uncordon`: take cards out of work, or let them take work again."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from rich.console import Console

from t9ksched.cli.client import Client
from t9ksched.cli.failure import BAD_USAGE, Failure


class CardAction(StrEnum):
    """What may be done to cards of a node."""

    CORDON = "cordon"
    UNCORDON = "uncordon"


def check(node: str | None, action: CardAction | None, gpus: Sequence[int], why: str) -> None:
    """See that the words of the command belong together.

    Raises:
        Failure: they do not.
    """
    if action is None:
        if gpus or why:
            raise Failure(
                "--gpu and --why go with cordon or uncordon.",
                remedy="Write: t9ksched nodes NODE cordon --gpu 3 --why 'ECC errors'",
                code=BAD_USAGE,
            )
    elif not gpus:
        raise Failure(
            f"{action} needs --gpu INDEX: it is about cards.",
            remedy=f"kubectl {action} {node} is about the whole node.",
            code=BAD_USAGE,
        )
    elif why and action is CardAction.UNCORDON:
        raise Failure("--why goes with cordon.", code=BAD_USAGE)


def change(client: Client, node: str, action: CardAction, gpus: Sequence[int], why: str) -> list[dict[str, Any]]:
    """Ask for each card once; what the service answered.

    Raises:
        Failure: a card does not exist, before anything is changed; or the service refuses.
    """
    wanted = list(dict.fromkeys(gpus))
    if action is CardAction.CORDON:
        _exist(client.get(f"/apis/v1/nodes/{node}"), wanted)
    elif wrong := [index for index in wanted if index < 0]:
        raise Failure(f"--gpu: there is no card {wrong[0]}.", name="InvalidField")
    body = {"cordoned": action is CardAction.CORDON} | ({"why": why} if why else {})
    options = {"why": "--why", "index": "--gpu"}
    return [
        client.call("PUT", f"/apis/v1/admin/nodes/{node}/cards/{index}", body=body, options=options).body
        for index in wanted
    ]


def _exist(node: dict[str, Any], wanted: Sequence[int]) -> None:
    counted = node.get("counted") or [] if node.get("mode") == "Whole" else []
    most = max(
        [int(card["index"]) + 1 for card in node.get("gpus") or []] + [int(one["has"]) for one in counted], default=0
    )
    if wrong := [index for index in wanted if not 0 <= index < most]:
        mode = f": its mode is {node['mode']}" if node.get("mode") else ""
        has = f"cards with the indices 0 to {most - 1}" if most else f"no whole cards{mode}"
        raise Failure(f"--gpu: there is no card {wrong[0]}: the node {node['name']} has {has}.", name="InvalidField")


def tell(answers: Sequence[dict[str, Any]], out: Console) -> None:
    """Say what the cards do now."""
    for one in answers:
        if one["cordoned"]:
            why = f" ({one['why']})" if one["why"] else ""
            text = f"{one['node']}: card {one['index']} is cordoned{why}: it takes no new work, what runs on it goes on"
        else:
            text = f"{one['node']}: card {one['index']} takes work again"
        out.print(text, soft_wrap=True, markup=False, highlight=False)
