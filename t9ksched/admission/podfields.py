"""The fields of a pod's spec as the API of Kubernetes 1.35 has them, for warnings about misspelt ones.

Each level is open: a later API may have more fields, so only those are told that resemble one that is known.
"""

from collections.abc import Mapping
from typing import Any, Final


def _fields(names: str, **known: Mapping[str, Any]) -> dict[str, Any]:
    """A schema with fields of these names, of which some have schemas of their own."""
    return {
        "properties": {name: known.get(name, {}) for name in names.split()},
        "x-kubernetes-preserve-unknown-fields": True,
    }


def _list(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"items": schema}


_CONTAINER: Final = _fields(
    "args command env envFrom image imagePullPolicy lifecycle livenessProbe name ports readinessProbe resizePolicy"
    " resources restartPolicy restartPolicyRules securityContext startupProbe stdin stdinOnce terminationMessagePath"
    " terminationMessagePolicy tty volumeDevices volumeMounts workingDir",
    env=_list(_fields("name value valueFrom")),
    ports=_list(_fields("containerPort hostIP hostPort name protocol")),
    resources=_fields("claims limits requests"),
    volumeMounts=_list(_fields("mountPath mountPropagation name readOnly recursiveReadOnly subPath subPathExpr")),
)
POD_SPEC: Final[Mapping[str, Any]] = _fields(
    "activeDeadlineSeconds affinity automountServiceAccountToken containers dnsConfig dnsPolicy enableServiceLinks"
    " ephemeralContainers hostAliases hostIPC hostNetwork hostPID hostUsers hostname hostnameOverride imagePullSecrets"
    " initContainers nodeName nodeSelector os overhead preemptionPolicy priority priorityClassName readinessGates"
    " resourceClaims resources restartPolicy runtimeClassName schedulerName schedulingGates securityContext"
    " serviceAccount serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain"
    " terminationGracePeriodSeconds tolerations topologySpreadConstraints volumes workloadRef",
    affinity=_fields("nodeAffinity podAffinity podAntiAffinity"),
    containers=_list(_CONTAINER),
    initContainers=_list(_CONTAINER),
    resources=_fields("claims limits requests"),
    tolerations=_list(_fields("effect key operator tolerationSeconds value")),
    topologySpreadConstraints=_list(
        _fields(
            "labelSelector matchLabelKeys maxSkew minDomains nodeAffinityPolicy nodeTaintsPolicy topologyKey"
            " whenUnsatisfiable"
        )
    ),
)
