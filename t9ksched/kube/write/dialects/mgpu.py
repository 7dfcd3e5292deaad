"""Volcengine mGPU: the annotation `vke.volcengine.com/gpu-index-container-<container>`, and `assumed`.

The node's device plugin finds the pod when a container starts and reads its annotation: `"1"`, or `"2,3"`. The binding
writes both, so there is no moment at which the pod is bound without them.
"""

from t9ksched.kube.write.dialects.card_index import CardIndex
from t9ksched.model.cards import CardGrant
from t9ksched.model.names import MGPU_ASSUMED, MGPU_INDEX_PREFIX
from t9ksched.model.podclass import PodClass


class MgpuIndex(CardIndex):
    """Written with the binding; the device plugin asks for nothing else."""

    prefix = MGPU_INDEX_PREFIX

    def write(self, pod: PodClass, held: CardGrant) -> dict[str, str]:
        texts = super().write(pod, held)
        return texts | {MGPU_ASSUMED: "true"} if texts else texts
