"""The default dialect: an annotation a container, with the indices of its cards: `"0,3"`."""

from collections.abc import Mapping

from t9ksched.kube.write.dialects.dialect import CardDialect
from t9ksched.model.cards import MOST_INDEXED, NO_CARDS, CardGrant
from t9ksched.model.names import GPU_INDEX_PREFIX
from t9ksched.model.podclass import PodClass
from t9ksched.model.whole import whole_number


class CardIndex(CardDialect):
    """`scheduler.tensorstack.dev/gpu-index-container-<container>`, written with the binding. Nothing else is needed."""

    prefix = GPU_INDEX_PREFIX

    def keys(self, pod: PodClass) -> tuple[str, ...]:
        return tuple(self.prefix + request.container for request in pod.cards)

    def write(self, pod: PodClass, held: CardGrant) -> dict[str, str]:
        given = held.by_container(pod.cards)
        return {self.prefix + container: ",".join(map(str, indices)) for container, _, indices in given if indices}

    def read(self, pod: PodClass, annotations: Mapping[str, str]) -> CardGrant:
        given = []
        for request, key in zip(pod.cards, self.keys(pod), strict=True):
            text = annotations.get(key, "")
            indices = [whole_number(part) for part in text.split(",")] if text else []
            known = [index for index in indices if index is not None and index < MOST_INDEXED]
            if not len(indices) == len(set(known)) == request.count:
                return NO_CARDS
            given.append((request.container, request.resource, known))
        return CardGrant.of_containers(given)
