"""What the inventory of nodes adds to a reason: cards that are cordoned."""

from dataclasses import replace
from typing import Final

from t9ksched.engine.placement.class_fit import ClassFit
from t9ksched.model.reasons import Reason

CARD_CORDONED: Final = "CardCordoned"
_MOST_NAMED: Final = 3


def with_cordons(column: ClassFit, reason: Reason) -> Reason:
    """The reason, and which idle cards on matching nodes take no work because they are cordoned."""
    resources = tuple(column.pod_class.card_counts)
    static = column.trial.nodes.static
    rows = [row for row in static.cordoned_rows if column.mask[row]] if resources else []
    found = [(static.facts[row].name, _idle(column, row, resources)) for row in rows]
    found = [(node, cards) for node, cards in found if cards]
    if not found:
        return reason
    match = int(column.mask.sum())
    named = [f"{', '.join(cards)} of {node}" for node, cards in found[:_MOST_NAMED]]
    more = [f"{len(found) - _MOST_NAMED} nodes more"] if len(found) > _MOST_NAMED else []
    return replace(
        reason,
        message=f"{reason.message}; {len(found)}/{match} {CARD_CORDONED}: {'; '.join([*named, *more])}",
        nodes={**reason.nodes, CARD_CORDONED: len(found)},
        unblocks=(*reason.unblocks, "an administrator uncordons the cards (t9ksched nodes NODE uncordon --gpu I)"),
    )


def _idle(column: ClassFit, row: int, resources: tuple[str, ...]) -> list[str]:
    """The cordoned cards of a node that nothing holds, in words; where they have no indices, all that are cordoned."""
    nodes = column.trial.nodes
    facts = nodes.static.facts[row]
    idle = facts.cards.withdrawn - nodes.static.cards.grant(nodes.cards_used, row)
    indices = {index for resource in resources for index in idle.indices(resource)}
    if any(facts.cordoned.get(resource) for resource in resources):
        indices |= facts.why_cordoned.keys()
    return [f"card {at}" + (f" ({why})" if (why := facts.why_cordoned.get(at)) else "") for at in sorted(indices)]
