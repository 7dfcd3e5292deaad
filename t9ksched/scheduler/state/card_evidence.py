"""What annotations of a bound pod say of its cards, against the record: those that are missing, those that say
something else, and those that nobody wrote who may.

Any node agent that a pod's annotations reach may believe them: so words of every dialect count, on whatever node the
pod is, and of a pod without cards, too.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from t9ksched.kube.write.dialects.dialect import CardDialect
from t9ksched.kube.write.dialects.table import naming_cards
from t9ksched.model.cards import CardGrant
from t9ksched.model.podclass import PodClass
from t9ksched.scheduler.state.card_rows import expected

_SHOWN: Final = 100
"""Characters of an annotation that are quoted."""
_MOST: Final = 3
"""Differences of one pod that are told in words."""


def difference(dialect: CardDialect, pod: PodClass, held: CardGrant, annotations: Mapping[str, str]) -> tuple[str, int]:
    """What of the annotations of a pod that holds these cards is not as on record, in words, and a number that tells
    it from other differences; no words where all is.
    """
    written = expected(dialect, pod, held)
    if annotations == written:  # it has no others
        return "", 0
    named = naming_cards(annotations)
    if named == written or not (named or pod.cards):
        return "", 0
    found = list(_differences(dialect, held, named, written))
    if not found:
        return "", 0
    words = [what for what, _ in found[:_MOST]]
    if len(found) > _MOST:
        words.append(f"{len(found) - _MOST} more")
    return "; ".join(words), hash(tuple(found))


def _differences(
    dialect: CardDialect, held: CardGrant, named: Mapping[str, str], written: Mapping[str, str]
) -> Iterator[tuple[str, str | None]]:
    """Each in words, and what the annotation says. `written` are those that a binding writes for these cards."""
    if held and not written:
        return  # its node does not say now what the words for these cards are
    for key, text in written.items():
        if (said := named.get(key)) is None or not dialect.agrees(key, said, text):
            word = "is gone" if said is None else f"says {_quoted(said)}"
            yield f"annotation {key} {word}, on record is {text!r}", said
    for key, said in sorted(named.items()):
        if key not in written and not (written and dialect.leaves(key, said, written)):
            yield f"annotation {key} says {_quoted(said)}, on record is no card by it: remove the annotation", said


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")
