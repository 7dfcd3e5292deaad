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
        return {
            GPU_INDEX_PREFIX + container: ",".join(map(str, sorted(indices)))
            for container, indices in cards.items()
            if indices
        }

    def read(self, requests: tuple[CardRequest, ...], annotations: Mapping[str, str]) -> CardGrant:
        given = []
        for request, key in zip(requests, self.keys(requests), strict=True):
            text = annotations.get(key, "")
            indices = [whole_number(part) for part in text.split(",")] if text else []
            known = [index for index in indices if index is not None and index < MOST_INDEXED]
            if not len(indices) == len(known) == request.count:
                return NO_CARDS
            given.append((request.container, request.resource, known))
        return CardGrant.of_containers(given)
