"""What is read, is no fault and has no effect: arguments that an algorithm has no use for, keys that open nothing."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from t9ksched.model.errors import FieldWarning
from t9ksched.workloads.authorized import is_useless
from t9ksched.workloads.fields import Field
from t9ksched.workloads.tuning.settings import vain_arguments


def vain(obj: Mapping[str, Any]) -> Iterator[FieldWarning]:
    """What has no effect in an object of a job that has no faults."""
    look = _BY_KIND.get(str(obj.get("kind")))
    if look is not None:
        yield from look(Field(obj)["spec"])


def _keys(spec: Field) -> Iterator[FieldWarning]:
    for key in spec["ssh"]["authorized_keys"].items():
        if any(map(is_useless, key.text().splitlines())):
            yield FieldWarning(key.path, "is no public key as authorized_keys has them, and opens nothing")


_BY_KIND: Final[Mapping[str, Callable[[Field], Iterator[FieldWarning]]]] = {
    "AutoTuneExperiment": vain_arguments,
    "Notebook": _keys,
}
