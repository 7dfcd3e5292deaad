from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from t9ksched import version
from t9ksched.kube.errors import AlreadyExists, Conflict, Forbidden, NotFound
from t9ksched.kube.resources import CRDS, NAMESPACES
from t9ksched.kube.setup import crds
from t9ksched.kube.setup.crds import REVISION_ANNOTATION, VERSION_LABEL, NotEstablished, ensure, ensure_namespace, read
from t9ksched.model.names import SYSTEM_NAMESPACE
from t9ksched.packaged import folder
from tests.unit.kube.memory import MemoryPort

ROOT = Path(__file__).parents[4]
NAME = "queues.scheduler.tensorstack.dev"


def definition(version: str | None, spec: str = "new", established: bool = True) -> dict[str, Any]:
    """`version` is a release, or a release and a revision such as `0.1.0 2`."""
    release, _, revision = (version or "").partition(" ")
    labels = {} if version is None else {VERSION_LABEL: release}
    metadata = {"name": NAME, "labels": labels} | ({"annotations": {REVISION_ANNOTATION: revision}} if revision else {})
    made: dict[str, Any] = {"kind": "CustomResourceDefinition", "metadata": metadata}
    made["spec"] = {"what": spec}
    if established:
        made["status"] = {"conditions": [{"type": "Established", "status": "True"}]}
    return made


def test_the_shipped_files_carry_the_release() -> None:
    release = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    files = {path.name: yaml.safe_load(path.read_text())["metadata"] for path in (ROOT / "deploy/crds").glob("*.yaml")}
    stale = [name for name, metadata in files.items() if metadata.get("labels", {}).get(VERSION_LABEL) != release]
    assert files
    assert not stale, f"put {VERSION_LABEL}: {release} into {stale}"


def test_shipped_files_are_not_parsed_and_others_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert crds.SHIPPED.read_text() == crds.shipped(folder("crds")), "`make reference` writes it anew"
    for path in folder("crds").glob("*.yaml"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    parsed: list[bytes] = []
    yaml_reader = crds.read_all

    def watched(text: bytes) -> list[Any]:
        parsed.append(text)
        return yaml_reader(text)

    monkeypatch.setattr(crds, "read_all", watched)
    crds._as_json.cache_clear()
    assert read(tmp_path) == read(folder("crds"))
    assert parsed == []
    changed = tmp_path / f"{NAME}.yaml"
    changed.write_text(changed.read_text().replace("kind: Queue\n", "kind: Line\n"))
    assert [one["spec"]["names"]["kind"] for one in read(tmp_path)].count("Line") == 1
    assert parsed == [changed.read_bytes()]


@pytest.mark.parametrize(
    ("there", "ours", "replaced"),
    [
        ("0.1.0", "0.2.0", True),
        ("0.9.0", "0.10.0", True),
        (None, "0.1.0", True),
        ("0.2.0", "0.2.0", False),
        ("0.3.0", "0.2.0", False),
        ("1.0", "0.2.0", False),
        ("0.1.0", "0.1.0 2", True),
        ("0.1.0 2", "0.1.0 10", True),
        ("0.1.0 2", "0.1.0", False),
        ("0.1.0 2", "0.2.0", True),
        ("0.2.0", "0.1.0 2", False),
    ],
)
async def test_only_an_older_one_is_replaced(there: str | None, ours: str, replaced: bool) -> None:
    port = MemoryPort()
    port.put(CRDS, definition(there, "old"))
    assert await ensure(port, [definition(ours)]) == ([NAME] if replaced else [])  # type: ignore[arg-type]
    assert port.one(CRDS, NAME)["spec"]["what"] == ("new" if replaced else "old")


async def test_a_missing_one_is_created_and_a_race_is_looked_at_again() -> None:
    port = MemoryPort()
    port.fail["create"] = [AlreadyExists(409), None]
    assert await ensure(port, [definition("1")]) == [NAME]  # type: ignore[arg-type]
    assert port.calls.count("create") == 2


async def test_a_conflict_is_tried_again_but_not_for_ever() -> None:
    port = MemoryPort()
    port.put(CRDS, definition("1", "old"))
    port.fail["replace"] = [Conflict(409)] * 99
    with pytest.raises(Conflict):
        await ensure(port, [definition("2")])  # type: ignore[arg-type]


async def test_who_may_not_install_needs_what_is_there() -> None:
    port = MemoryPort()
    port.fail["create"] = [Forbidden(403)]
    assert await ensure(port, [definition("1")]) == []  # type: ignore[arg-type]
    port.fail |= {"create": [Forbidden(403)], "list": [NotFound(404)]}
    with pytest.raises(NotEstablished, match="kubectl apply -f deploy/crds"):
        await ensure(port, [definition("1")])  # type: ignore[arg-type]


async def test_the_namespace_is_made_by_a_user_with_the_right() -> None:
    port = MemoryPort()
    await ensure_namespace(port)  # type: ignore[arg-type]
    assert await port.get(NAMESPACES, SYSTEM_NAMESPACE)
    port.fail["create"] = [Forbidden(403)]
    await ensure_namespace(port)  # type: ignore[arg-type]
    port.fail |= {"create": [Forbidden(403)], "get": [NotFound(404)]}
    with pytest.raises(NotEstablished, match=f"kubectl create namespace {SYSTEM_NAMESPACE}"):
        await ensure_namespace(port)  # type: ignore[arg-type]


async def test_one_that_is_never_established_is_named() -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    with pytest.raises(NotEstablished, match=NAME):
        await ensure(MemoryPort(), [definition("1", established=False)], timeout=3.0, sleep=sleep)  # type: ignore[arg-type]
    assert 3.0 <= sum(slept) < 5.0


def test_a_folder_is_read_in_order_and_other_documents_left_out(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text("kind: CustomResourceDefinition\nmetadata: {name: b}\n---\nkind: Other\n")
    labelled = f"metadata: {{name: a, labels: {{{VERSION_LABEL}: '7'}}}}"
    (tmp_path / "a.yaml").write_text(f"kind: CustomResourceDefinition\n{labelled}\n---\n")
    (tmp_path / "notes.txt").write_text("x")
    found = {item["metadata"]["name"]: item["metadata"]["labels"][VERSION_LABEL] for item in read(tmp_path)}
    assert found == {"a": "7", "b": version()}
    assert list(found) == ["a", "b"]
