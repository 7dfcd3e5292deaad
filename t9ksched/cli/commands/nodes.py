"""`t9ksched nodes`: every node with its cards drawn as blocks, and the jobs that hold them."""

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from t9ksched.cli.cards import Palette, coloured, draw, legend
from t9ksched.cli.cordoning import CardAction, change, check, tell
from t9ksched.cli.messages import word
from t9ksched.cli.options import OutputOption, Service, with_service
from t9ksched.cli.output import Output, ahead, console, paragraph, print_json, print_table, table


@with_service
def nodes(
    service: Service,
    name: Annotated[str | None, typer.Argument(metavar="NODE", help="One node, card by card.")] = None,
    action: Annotated[
        CardAction | None, typer.Argument(metavar="[cordon|uncordon]", help="What to do to its cards of --gpu.")
    ] = None,
    gpu: Annotated[
        list[int] | None, typer.Option("--gpu", metavar="INDEX", help="A card, counted from 0; may be repeated.")
    ] = None,
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="What people are told of a cordoned card.")] = "",
    output: OutputOption = Output.table,
) -> None:
    """Draw the nodes: one block a card, one colour a job, and a legend with the number of cards of each job.

    With cordon, cards of a node take no new work until uncordon; what runs on them goes on.
    """
    check(name, action, gpu or [], why)
    client = service()
    if name is not None and action is not None:
        answers = change(client, name, action, gpu or [], why)
        print_json(answers) if output is Output.json else tell(answers, console())
    elif name is not None:
        node = client.get(f"/apis/v1/nodes/{name}")
        print_json(node) if output is Output.json else show_one(node, console())
    else:
        items = list(client.get("/apis/v1/nodes")["items"])
        print_json(items) if output is Output.json else show_all(items, console())


def show_all(items: list[dict[str, Any]], out: Console) -> None:
    """Print the map of node shapes with its legend."""
    palette = Palette(coloured(out))
    # Most clusters have whole cards alone: how cards are handed out is shown where it is not that.
    modes = any(node.get("counted") or node.get("mode") == "NotReady" for node in items)
    planned = any(node.get("planned") for node in items)
    rows = [_row(node, palette, modes=modes, planned=planned) for node in items]
    columns: tuple[str, ...] = ("NODE", "STATE", *(("MODE",) if modes else ()), "CARDS", "HELD", "MODEL", "CPU")
    columns += ("MEMORY", *(("PLANNED",) if planned else ()))
    print_table(out, table(columns, rows, right=("HELD",)))
    if entries := legend(items, palette):
        out.print()
        for entry in entries:
            out.print(Text("  ").append_text(entry))


def _row(node: dict[str, Any], palette: Palette, *, modes: bool, planned: bool) -> list[str | Text]:
    gpus, counted = node.get("gpus") or [], node.get("counted") or []
    cards = Text(", ").join(
        [draw(gpus, palette, unknown=_unknown(node))] * bool(gpus) + [Text(_counted(entry)) for entry in counted]
    )
    models = [str(entry["model"]) for entry in (*gpus, *counted) if entry.get("model")]
    return [
        str(node.get("name")),
        state(node),
        *((str(node.get("mode") or "–"),) if modes else ()),
        cards,
        held(gpus, counted),
        models[0] if models else "–",
        _of(node, "cpu"),
        _of(node, "memory"),
        *((_next(node),) if planned else ()),
    ]


def _next(node: dict[str, Any]) -> str:
    """The next planned start there: `in 2h: vision/PyTorchTrainingJob/llama, 2 more`."""
    plans = node.get("planned") or []
    if not plans:
        return "–"
    more = f", {len(plans) - 1} more" if len(plans) > 1 else ""
    return f"{ahead(plans[0].get('at'))}: {_planned_job(plans[0])}{more}"


def _planned_job(plan: dict[str, Any]) -> str:
    return "another user's" if plan.get("job") is None else f"{plan.get('namespace')}/{plan['job']}"


def held(gpus: list[dict[str, Any]], counted: list[dict[str, Any]]) -> str:
    """`3/8`: how many cards are held of how many; of unlike ones each kind for itself, in the order of CARDS."""
    kinds: dict[str, list[int]] = {}
    for card in gpus:
        entry = kinds.setdefault(str(card.get("resource") or ""), [0, 0])
        entry[0], entry[1] = entry[0] + bool(card.get("holders")), entry[1] + 1
    found = [*kinds.values(), *([one["held"], one["has"]] for one in counted)]
    return ", ".join(f"{some}/{all_}" for some, all_ in found if all_) or "–"


def _counted(entry: dict[str, Any]) -> str:
    """Cards, or parts of cards, that have no indices: `28 × nvidia.com/gpu`."""
    out = f", {entry['cordoned']} out of service" if entry.get("cordoned") else ""
    return f"{entry['has']} × {entry['resource']}{out}"


def state(node: dict[str, Any]) -> Text:
    """Ready, NotReady or Cordoned; and whether pods' annotations name other cards than they hold on record."""
    if not node.get("ready"):
        text = Text("NotReady", style="red")
    else:
        text = Text("Ready", style="green") if node.get("schedulable", True) else Text("Cordoned", style="yellow")
    drifts = node.get("cardDrift") or node.get("cardsMisheld")
    return text.append(", CardDrift", style="red") if drifts else text


def _of(node: dict[str, Any], resource: str) -> str:
    used = (node.get("allocated") or {}).get(resource) or "0"
    return f"{used} of {(node.get('allocatable') or {}).get(resource, '–')}"


def show_one(node: dict[str, Any], out: Console) -> None:
    """Print one node shape: its resources, then card by card."""
    palette = Palette(coloured(out))
    out.print(
        Text.assemble(
            (str(node.get("name")), "bold"),
            "  ",
            state(node),
            f"  cards: {node.get('cardMode') or '–'}",
            f"  mode: {node.get('mode') or '–'}",
        )
    )
    if node.get("notReady"):
        out.print(Text(f"GPUs not ready: {node['notReady']}", style="yellow"), soft_wrap=True)
    if node.get("linksIgnored"):
        out.print(Text(f"Links between cards not followed: {node['linksIgnored']}", style="yellow"), soft_wrap=True)
    if node.get("cardsIgnored"):
        out.print(Text(f"Cards not given: {node['cardsIgnored']}", style="yellow"), soft_wrap=True)
    if counted := node.get("counted"):
        out.print(Text(f"counted by number, without indices: {', '.join(map(_counted, counted))}"))
        if node.get("mode") == "Whole":  # whether its cards have indices is decided by their number alone
            from t9ksched.model.cards import MOST_INDEXED

            out.print(f"More than {MOST_INDEXED} cards of one resource on a node have no indices.")
    resources = [
        [key, str((node.get("allocated") or {}).get(key, "0")), str(value)]
        for key, value in (node.get("allocatable") or {}).items()
    ]
    print_table(out, table(("RESOURCE", "ALLOCATED", "ALLOCATABLE"), resources, right=("ALLOCATED", "ALLOCATABLE")))
    if unknown := node.get("cardsUnknown"):
        pods, they = ("1 pod was", "it ends") if unknown == 1 else (f"{unknown} pods were", "they end")
        out.print(f"Which cards {pods} given is on no record: the node gives no more cards until {they}.")
    for one in node.get("cardsMisheld") or ():
        whose = "another user's pod" if one.get("namespace") is None else f"{one['namespace']}/{one.get('pod')}"
        paragraph(out, Text.assemble(("CardDrift", "red"), f" {whose}: {one['what']}"))
    if gpus := node.get("gpus"):
        out.print()
        rows = [_card(card, palette, unknown=_unknown(node)) for card in sorted(gpus, key=lambda item: item["index"])]
        print_table(out, table(("CARD", "", "MODEL", "MEMORY", "HOLDER", "CONTAINER"), rows, right=("CARD",)))
    if plans := node.get("planned"):
        out.print()
        planned = [
            [
                str(plan["at"]),
                str(plan.get("until") or "–"),
                _planned_job(plan),
                str(plan.get("queue") or "–"),
                str(plan["gpus"]),
            ]
            for plan in plans
        ]
        print_table(out, table(("PLANNED START", "UNTIL", "JOB", "QUEUE", "GPUS"), planned, right=("GPUS",)))


def _who(holder: dict[str, Any]) -> str:
    part = "" if holder.get("whole", True) else f" {holder.get('cores')} % {holder.get('memoryMiB')} MiB"
    name = "another user's" if holder.get("namespace") is None else f"{holder['namespace']}/{holder.get('pod')}"
    return f"{name}{part}" + (" (CardDrift)" if holder.get("drift") else "")


def _unknown(node: dict[str, Any]) -> bool:
    """Whether a pod may hold any of the cards that no other pod holds."""
    return bool(node.get("cardsUnknown"))


def _card(card: dict[str, Any], palette: Palette, *, unknown: bool) -> list[str | Text]:
    holders = card.get("holders") or []
    memory = f"{card['memoryMiB'] // 1024} GiB" if card.get("memoryMiB") else "–"
    who = ", ".join(map(_who, holders))
    works = card.get("healthy", True) and not card.get("cordoned")
    idle = ("not known" if unknown else word("free")) if works else "out of service"
    if card.get("cordoned"):
        idle = "cordoned" + (f": {card['cordonedWhy']}" if card.get("cordonedWhy") else "")
        who = f"{who} ({idle})" if who else ""
    return [
        str(card["index"]),
        draw([card], palette, unknown=unknown),
        str(card.get("model") or "–"),
        memory,
        who or Text(idle, style="dim"),
        ", ".join(str(holder.get("container")) for holder in holders),
    ]
