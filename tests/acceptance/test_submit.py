"""`t9ksched submit`: files by name or on standard input, generated names, fields changed on the way."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from t9ksched.client import Client, Refused
from tests.acceptance.conftest import EXAMPLES, Up, until

POD = (EXAMPLES / "pod.yaml").read_text()
GENERATED = POD.replace("name: nvidia-smi", "generateName: smi-", 1)


@pytest.fixture(autouse=True)
def _tidy(up: Up) -> Iterator[None]:
    yield
    if there := [f"pod/{pod['metadata']['name']}" for pod in up.pods()]:
        up.must("cancel", *there, "--yes")
    until(lambda: not up.pods() and up.held() == 0, "free cards")


def names(told: str) -> list[str]:
    return re.findall(r"^(\S+) submitted", told, re.M)


def test_files_by_name_and_on_standard_input(up: Up, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(POD.replace("nvidia-smi", "other"))
    assert names(up.must("submit", str(EXAMPLES / "pod.yaml"), str(other))) == ["Pod/nvidia-smi", "Pod/other"]
    assert names(up.must("submit", "-", stdin=POD.replace("nvidia-smi", "third"))) == ["Pod/third"]
    assert names(up.must("submit", "-f", "-", stdin=POD.replace("nvidia-smi", "fourth"))) == ["Pod/fourth"]


def test_each_document_of_a_file_gets_a_name_of_its_own(up: Up) -> None:
    found = names(up.must("submit", "-", stdin=f"{GENERATED}---\n{GENERATED}"))
    assert len(set(found)) == 2
    assert all(re.fullmatch(r"Pod/smi-[a-z2-9]{5}", name) for name in found)
    assert {f"Pod/{pod['metadata']['name']}" for pod in up.pods()} == set(found)


def test_a_repeat_with_the_same_key_has_the_same_generated_name(up: Up) -> None:
    client = Client(up.server, up.token)
    (first,) = client.submit(GENERATED, key="once").items
    assert client.submit(GENERATED, key="once").items[0].uid == first.uid
    assert client.submit(GENERATED, key="twice").items[0].name != first.name
    assert len(up.pods()) == 2
    with pytest.raises(Refused, match=r"'A_b[a-z2-9]{5}' is not a valid name"):
        client.submit(GENERATED.replace("smi-", "A_b"))


def test_fields_are_changed_in_every_object(up: Up) -> None:
    words = ("--set", "metadata.labels[example.com/team]=a,spec.containers[0].resources.limits[nvidia.com/gpu]=2")
    up.must("submit", "-", *words, "--set-string", "metadata.labels.run=7", stdin=f"{GENERATED}---\n{GENERATED}")
    for pod in up.pods():
        labels = pod["metadata"]["labels"]
        assert (labels["example.com/team"], labels["run"]) == ("a", "7")
        assert pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "2"


@pytest.mark.parametrize(
    ("words", "stdin", "code", "told"),
    [
        ((), "", 2, "No file is named"),
        (("-", "--set", "x"), POD, 2, "--set: 'x' changes nothing: write PATH=VALUE"),
        (("-", "--set", "kind.x=1"), POD, 1, "-: --set: kind.x cannot be set: kind is 'Pod'"),
        (("-", "--set", "spec.x=1"), "a: [", 1, "-: it cannot be read"),
        (("-", "--set", "spec.x=1"), "- 1", 1, "it holds something that is no object"),
        (("-",), "", 1, "Malformed"),
        (("/nonexistent.yaml",), "", 1, "/nonexistent.yaml: it cannot be read: No such file"),
    ],
)
def test_what_cannot_be_submitted(up: Up, words: tuple[str, ...], stdin: str, code: int, told: str) -> None:
    done = up.cli("submit", *words, stdin=stdin)
    assert (done.code, told in done.err) == (code, True), done.err
    assert up.pods() == []
