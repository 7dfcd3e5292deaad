"""What kubectl 1.36 sends as Protocol Buffers, as it was sent."""

import base64
from typing import Any

import pytest

from t9ksched.devcluster.apiserver import protobuf

SENT: dict[str, tuple[str, dict[str, Any]]] = {
    "deployment d --image=nginx --replicas=0 --port=80": (
        "azhzAAoVCgdhcHBzL3YxEgpEZXBsb3ltZW50ErABChsKAWQSABoAIgAqADIAOABCAFoICgNhcHASAWQSggEIABIKCggKA2FwcBIBZBpqChoK"
        "ABIAGgAiACoAMgA4AEIAWggKA2FwcBIBZBJMEi4KBW5naW54EgVuZ2lueCoAMgoKABAAGFAiACoAQgBqAHIAgAEAiAEAkAEAogEAGgAyAEIA"
        "SgBSAFgAYABoAIIBAIoBAJoBAMIBACICCgAoADgAGgwIABAAGAAgACgAOAAaACIA",
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "d", "labels": {"app": "d"}},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": {"app": "d"}},
                "template": {
                    "metadata": {"labels": {"app": "d"}},
                    "spec": {
                        "containers": [
                            {"name": "nginx", "image": "nginx", "ports": [{"containerPort": 80}], "resources": {}}
                        ]
                    },
                },
            },
        },
    ),
    "service nodeport s --tcp=80:web": (
        "azhzAAoNCgJ2MRIHU2VydmljZRJjChsKAXMSABoAIgAqADIAOABCAFoICgNhcHASAXMSQAocCgY4MC13ZWISA1RDUBhQIgkIARAAGgN3ZWIo"
        "ABIICgNhcHASAXMaACIITm9kZVBvcnQ6AEIAUgBaAGAAaAAaAgoAGgAiAA==",
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "s", "labels": {"app": "s"}},
            "spec": {
                "ports": [{"name": "80-web", "protocol": "TCP", "port": 80, "targetPort": "web"}],
                "selector": {"app": "s"},
                "type": "NodePort",
            },
        },
    ),
    "quota q --hard=cpu=1,memory=1Gi": (
        "azhzAAoTCgJ2MRINUmVzb3VyY2VRdW90YRI0ChEKAXESABoAIgAqADIAOABCABIdCgoKA2NwdRIDCgExCg8KBm1lbW9yeRIFCgMxR2kaABoA"
        "IgA=",
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "q"},
            "spec": {"hard": {"cpu": "1", "memory": "1Gi"}},
        },
    ),
    "clusterrole r --verb=get --resource=pods --resource-name=a": (
        "azhzAAorChxyYmFjLmF1dGhvcml6YXRpb24uazhzLmlvL3YxEgtDbHVzdGVyUm9sZRIlChEKAXISABoAIgAqADIAOABCABIQCgNnZXQSABoE"
        "cG9kcyIBYRoAIgA=",
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "r"},
            "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]}],
        },
    ),
    "priorityclass low --value=-5 --description=d": (
        "azhzAAolChRzY2hlZHVsaW5nLms4cy5pby92MRINUHJpb3JpdHlDbGFzcxI7ChMKA2xvdxIAGgAiACoAMgA4AEIAEPv//////////wEYACIB"
        "ZCoUUHJlZW1wdExvd2VyUHJpb3JpdHkaACIA",
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "low"},
            "value": -5,
            "description": "d",
            "preemptionPolicy": "PreemptLowerPriority",
        },
    ),
    "pdb p --selector=app=web --min-available=50%": (
        "azhzAAogCglwb2xpY3kvdjESE1BvZERpc3J1cHRpb25CdWRnZXQSOgoRCgFwEgAaACIAKgAyADgAQgASGQoJCAEQABoDNTAlEgwKCgoDYXBw"
        "EgN3ZWIaCggAGAAgACgAMAAaACIA",
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "p"},
            "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"app": "web"}}},
        },
    ),
    "token default --duration=10m": (
        "azhzAAooChhhdXRoZW50aWNhdGlvbi5rOHMuaW8vdjESDFRva2VuUmVxdWVzdBIdChAKABIAGgAiACoAMgA4AEIAEgMg2AQaBAoAEgAaACIA",
        {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "metadata": {},
            "spec": {"expirationSeconds": 600},
        },
    ),
}


@pytest.mark.parametrize("command", SENT)
def test_what_kubectl_create_sends(command: str) -> None:
    sent, meant = SENT[command]
    assert protobuf.read(base64.b64decode(sent)) == meant


def test_a_text_in_the_place_of_a_number() -> None:
    body = b"k8s\x00\x0a\x1b\x0a\x0aapps/v1   \x12\x0dPriorityClass\x12\x03\x12\x01x"
    with pytest.raises(protobuf.Unreadable, match="a number was expected"):
        protobuf.read(body)
