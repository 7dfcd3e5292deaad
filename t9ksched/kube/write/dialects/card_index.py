"""The default dialect: an annotation a container, with the indices of its cards: `"0,3"`."""

from collections.abc import Mapping

from t9ksched.kube.write.dialects.dialect import CardDialect
from t9ksched.model.cards import MOST_INDEXED, NO_CARDS, CardGrant, CardRequest
from t9ksched.model.names import GPU_INDEX_PREFIX
from t9ksched.model.whole import whole_number


class CardIndex(CardDialect):
    """`scheduler.tensorstack.dev/gpu-index-container-<container>`, written with the binding. Nothing else is needed."""

    def keys(self, requests: tuple[CardRequest, ...]) -> tuple[str, ...]:
        return tuple(GPU_INDEX_PREFIX + request.container for request in requests)

    def write(self, cards: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
        return index_texts(GPU_INDEX_PREFIX, cards)

    def read(self, requests: tuple[CardRequest, ...], annotations: Mapping[str, str]) -> CardGrant:
        return indices_named(requests, self.keys(requests), annotations)


def index_texts(prefix: str, cards: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
    """An annotation for each container that gets cards: their indices, separated by commas."""
    return {prefix + container: ",".join(map(str, sorted(indices))) for container, indices in cards.items() if indices}


def indices_named(
    requests: tuple[CardRequest, ...], keys: tuple[str, ...], annotations: Mapping[str, str]
) -> CardGrant:
    """The cards that annotations of these keys name, one a request; none at all when one is missing or wrong."""
    given = []
    for request, key in zip(requests, keys, strict=True):
        text = annotations.get(key, "")
        indices = [whole_number(part) for part in text.split(",")] if text else []
        known = [index for index in indices if index is not None and index < MOST_INDEXED]
        if not len(indices) == len(set(known)) == request.count:
            return NO_CARDS
        given.append((request.container, request.resource, known))
    return CardGrant.of_containers(given)
