"""The stored fields of the built-in kinds are those of the installed client library."""

import pytest

from t9ksched.devcluster.apiserver import models
from t9ksched.devcluster.apiserver.models import Fields, fields, of_library, reachable


def test_the_file_is_what_the_library_has_now() -> None:
    """If not: `python -m t9ksched.devcluster.apiserver.models` writes it anew."""
    stored = {model: Fields(types, frozenset(required)) for model, (types, required) in models._stored().items()}
    assert stored == reachable()


def test_other_models_are_read_from_the_library() -> None:
    assert "V1APIService" not in models._stored()
    assert fields("V1APIService") == of_library("V1APIService")
    with pytest.raises(AttributeError):
        fields("V1Nothing")


def test_the_group_of_a_pod_as_kubernetes_1_35_has_it() -> None:
    assert fields("V1PodSpec").types["workloadRef"] == "V1WorkloadReference"
    assert fields("V1WorkloadReference").required == {"name", "podGroup"}
