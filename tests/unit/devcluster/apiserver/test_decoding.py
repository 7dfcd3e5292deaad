"""What the server makes of an object it is sent: quantities, times, unknown and empty fields, wrong types."""

from typing import Any

import pytest

from t9ksched.devcluster.apiserver.quantities import QuantityError, canonical
from t9ksched.devcluster.apiserver.schema import WrongType, decoder


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("1", "1"),
        ("0.5", "500m"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("2000", "2k"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("512Ki", "512Ki"),
        ("1e9", "1e9"),
        ("12E", "12E"),
        ("0", "0"),
        ("0Gi", "0"),
        ("-1", "-1"),
        ("0.0000000001", "1n"),
        ("+2", "2"),
    ],
)
def test_canonical_quantities(text: str, stored: str) -> None:
    assert canonical(text) == stored
    assert canonical(stored) == stored


@pytest.mark.parametrize("text", ["", "abc", "1 Gi", " 1", "1gi", "--1", "1e", "0x1"])
def test_bad_quantities(text: str) -> None:
    with pytest.raises(QuantityError):
        canonical(text)


@pytest.mark.parametrize(
    ("model", "given", "stored"),
    [
        ("V1PodSpec", {"nodeName": "", "hostNetwork": False, "priority": 0}, {"priority": 0}),
        ("V1PodSpec", {"nodeSelector": {}, "tolerations": [], "affinity": {}}, {"affinity": {}}),
        ("V1PodSpec", {"unknown": 1, "volumes": None}, {}),
        ("V1LeaseSpec", {"renewTime": "2026-01-01T00:00:00Z"}, {"renewTime": "2026-01-01T00:00:00.000000Z"}),
        ("V1LeaseSpec", {"holderIdentity": ""}, {"holderIdentity": ""}),
        (
            "V1ObjectMeta",
            {"creationTimestamp": "2026-01-01T02:00:00+02:00"},
            {"creationTimestamp": "2026-01-01T00:00:00Z"},
        ),
        (
            "V1ResourceRequirements",
            {"limits": {"cpu": 2, "memory": "1024Mi"}},
            {"limits": {"cpu": "2", "memory": "1Gi"}},
        ),
        ("V1ServicePort", {"port": 80, "targetPort": "http"}, {"port": 80, "targetPort": "http"}),
        ("V1PersistentVolumeClaimSpec", {"storageClassName": ""}, {"storageClassName": "", "resources": {}}),
    ],
)
def test_stored_form(model: str, given: dict[str, Any], stored: dict[str, Any]) -> None:
    assert decoder(model)(given, "", []) == stored


def test_unknown_fields_are_named_by_their_path() -> None:
    unknown: list[str] = []
    decoder("V1Pod")({"spec": {"containers": [{"name": "c", "imagee": "x"}]}, "extra": 1}, "", unknown)
    assert unknown == ["spec.containers[0].imagee", "extra"]


@pytest.mark.parametrize(
    ("model", "given", "path"),
    [
        ("V1ConfigMap", {"data": {"a": 1}}, "data"),
        ("V1PodSpec", {"containers": {}}, "containers"),
        ("V1PodSpec", {"hostNetwork": "yes"}, "hostNetwork"),
        ("V1PodSpec", {"priority": "high"}, "priority"),
        ("V1PodSpec", {"priority": True}, "priority"),
        ("V1PodSpec", {"containers": [{"name": 1}]}, r"containers\[0\].name"),
        ("V1ResourceRequirements", {"limits": {"cpu": "abc"}}, r"limits\[cpu\]"),
        ("V1ResourceRequirements", {"limits": {"cpu": []}}, r"limits\[cpu\]"),
        ("V1LeaseSpec", {"renewTime": "yesterday"}, "renewTime"),
        ("V1Pod", {"spec": []}, "spec"),
    ],
)
def test_wrong_types_are_told_with_their_path(model: str, given: dict[str, Any], path: str) -> None:
    with pytest.raises(WrongType, match=path):
        decoder(model)(given, "", [])


def test_what_comes_out_is_the_callers_own() -> None:
    given = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "args": ["x"]}]}}
    stored = decoder("V1Pod")(given, "", [])
    stored["metadata"]["labels"]["a"] = "changed"
    stored["spec"]["containers"][0]["args"].append("y")
    assert given == {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "args": ["x"]}]}}
