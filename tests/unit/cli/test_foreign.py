"""Errors of other rooms, as a person reads them."""

import pytest

from t9ksched.cli.failure import Failure
from t9ksched.cli.foreign import failures
from t9ksched.kube.transport.config import ConfigError


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("data/kubeconfig", "data/kubeconfig: no such file."),
        ("kubeconfig", "kubeconfig: no such file."),
        ("the cluster", "The cluster: no such file."),
    ],
)
def test_names_of_files_keep_their_first_letter(source: str, shown: str) -> None:
    with pytest.raises(Failure) as caught, failures():
        raise ConfigError(source, "", "no such file")
    assert caught.value.message == shown
