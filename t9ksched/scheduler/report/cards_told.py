"""What history says of the cards that a pod was bound with: of which models they are, and how much of each."""

from functools import lru_cache

from t9ksched.model.card_worth import by_model
from t9ksched.model.node import NodeFacts
from t9ksched.model.quantity import CARD
from t9ksched.scheduler.report.job_shape import Json
from t9ksched.scheduler.state.charges import Charge
from t9ksched.store.spans import UNKNOWN


@lru_cache(maxsize=256)
def physical(worth: int) -> float:
    """Parts of a card as a number of cards."""
    return round(worth / CARD, 7)


def model_of(facts: NodeFacts, charge: Charge | None) -> str | None:
    """The model of the cards that a pod has, or the models, by name; None where nothing says it."""
    parts = charge.cards.parts if charge is not None else ()
    if not parts:
        return facts.product or None
    single = {facts.cards.model(part.resource, part.index) for part in parts} - {""}
    return " + ".join(sorted(single)) or facts.product or None


def of_models(facts: NodeFacts | None, charge: Charge, detail: Json) -> list[list[object]]:
    """How much of cards of each model a pod has, and which; nothing where they are of one model."""
    known = by_model(facts, charge.cards) if facts is not None else {}
    whole = (facts and facts.product) or UNKNOWN
    # Whole cards besides are of the model that the node's label says.
    indices = {index for which in detail["cards"].values() for index in which}
    others = indices.difference(*(cards for _, cards in known.values()))
    rest = charge.worth - sum(worth for worth, _ in known.values())
    found: dict[str, tuple[int, set[int]]] = {}
    if rest > 0 and not others:
        return []  # of cards without indices besides, which are not told apart
    more = [(whole, (rest, tuple(others)))] if others else []
    for model, (worth, cards) in (*known.items(), *more):
        before, those = found.get(model or whole, (0, set()))
        found[model or whole] = before + worth, those.union(cards)
    if len(found) < 2:
        return []
    return [[model, physical(worth), sorted(cards)] for model, (worth, cards) in sorted(found.items())]
