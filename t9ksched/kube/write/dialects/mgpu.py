"""Volcengine mGPU: the annotation `vke.volcengine.com/gpu-index-container-<container>`, and `assumed`.

The node's device plugin finds the pod when a container starts and reads its annotation: `"1"`, or `"2,3"`. The binding
writes both, so there is no moment at which the pod is bound without them.
"""

from collections.abc import Mapping

from t9ksched.kube.write.dialects.card_index import index_texts, indices_named
from t9ksched.kube.write.dialects.dialect import CardDialect
from t9ksched.model.cards import CardGrant, CardRequest
from t9ksched.model.names import MGPU_ASSUMED, MGPU_INDEX_PREFIX


class MgpuIndex(CardDialect):
    """Written with the binding; the device plugin asks for nothing else."""

    def keys(self, requests: tuple[CardRequest, ...]) -> tuple[str, ...]:
        return tuple(MGPU_INDEX_PREFIX + request.container for request in requests)

    def write(self, cards: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
        texts = index_texts(MGPU_INDEX_PREFIX, cards)
        return texts | {MGPU_ASSUMED: "true"} if texts else texts

    def read(self, requests: tuple[CardRequest, ...], annotations: Mapping[str, str]) -> CardGrant:
        return indices_named(requests, self.keys(requests), annotations)
