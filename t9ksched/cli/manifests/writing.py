"""Writes what follows from the chart and its values: `python -m t9ksched.cli.manifests.writing deploy`.

That is `chart/values.yaml` and `chart/values.schema.json`, and the Kustomize base: the chart with its default values
and the namespace. A test holds the files equal to what this writes.
"""

import ast
import inspect
import sys
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from textwrap import wrap
from typing import Any, Final

import msgspec
import yaml

from t9ksched.cli.manifests import values
from t9ksched.cli.manifests.chart import ORDER, render
from t9ksched.cli.manifests.values import Namespace, Section, Values

_HEAD: Final = """# Values of the chart with their defaults, written by `make reference` from t9ksched/cli/manifests.
# Helm and `t9ksched manifests` refuse whatever is not here (values.schema.json).
"""
_WIDTH: Final = 110
_WRITTEN_BY_HAND: Final = ("rbac", "admission")
"""Files of the base that the chart has by a link, like `deploy` itself: Kustomize reads nothing outside its folder."""
_BASE: Final = """# Scheduler, controllers and REST as three Deployments that share a PostgreSQL database: the chart
# with its defaults, written by `make reference`.
# Before: kubectl apply -f deploy/crds; the Secret t9ksched: docs/guides/install.md.
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
labels:
- pairs:
    app.kubernetes.io/part-of: t9ksched
resources:
"""


def values_yaml() -> str:
    """The default values with what they mean."""
    return _HEAD + "".join(f"{line}\n" for line in _section(Values, Values(), ""))


def values_schema() -> str:
    """A JSON Schema of the values, as Helm reads it."""
    _, definitions = msgspec.json.schema_components([Values], ref_template="#/$defs/{name}")
    for name, schema in definitions.items():
        texts = _texts(getattr(values, name))
        for field, shown in zip(*_names(getattr(values, name)), strict=True):
            described = schema["properties"][shown]
            if "$ref" in described and field in texts:
                described = schema["properties"][shown] = {"allOf": [{"$ref": described["$ref"]}]}
            if field in texts:
                described["description"] = texts[field]
            described.pop("default", None)
        # Helm merges what is given with the defaults: a file of some values is as good as one of all.
        schema.pop("required", None)
    top = definitions.pop("Values")
    # Charts that have this one in them hand it their global values.
    top["properties"]["global"] = {"type": "object"}
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **top, "$defs": definitions}
    return msgspec.json.format(msgspec.json.encode(schema), indent=2).decode() + "\n"


def base() -> dict[str, str]:
    """The files of the Kustomize base by their names."""
    parts = [part for part in render(Values(namespace=Namespace(create=True))) if part.name != "crds"]
    listed = "".join(f"- {name}.yaml\n" for name in ORDER if name in {part.name for part in parts})
    files = {f"{part.name}.yaml": part.text for part in parts if part.name not in _WRITTEN_BY_HAND}
    return files | {"kustomization.yaml": _BASE + listed}


def _section(kind: type[Section], value: Section, indent: str) -> Iterator[str]:
    texts = _texts(kind)
    for field, shown in zip(*_names(kind), strict=True):
        inner = getattr(value, field)
        about = [texts[field]] if field in texts else []
        if isinstance(inner, Section) and type(inner).__doc__ and field not in texts:
            about = [inspect.cleandoc(type(inner).__doc__ or "")]
        for line in wrap(" ".join(about), _WIDTH - len(indent), break_on_hyphens=False):
            yield f"{indent}# {line}"
        if isinstance(inner, Section) and not isinstance(inner, values.Resources):
            yield f"{indent}{shown}:"
            yield from _section(type(inner), inner, f"{indent}  ")
        else:
            text = yaml.safe_dump(msgspec.to_builtins(inner), default_flow_style=True, sort_keys=False, width=10_000)
            yield f"{indent}{shown}: {text.strip().removesuffix('...').strip()}"


def _names(kind: type[Section]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return kind.__struct_fields__, kind.__struct_encode_fields__


@cache
def _texts(kind: type[Section]) -> dict[str, str]:
    """The text under each field of a class and of those that it is made from."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if not issubclass(each, Section):
            continue
        (body,) = ast.parse(inspect.getsource(each)).body
        assert isinstance(body, ast.ClassDef)
        for one, after in pairwise(body.body):
            if isinstance(one, ast.AnnAssign) and isinstance(after, ast.Expr) and isinstance(one.target, ast.Name):
                constant: Any = after.value
                found[one.target.id] = inspect.cleandoc(constant.value)
    return found


def main(folder: Path) -> None:
    """Write all of them below `folder`."""
    (folder / "chart" / "values.yaml").write_text(values_yaml(), encoding="utf-8")
    (folder / "chart" / "values.schema.json").write_text(values_schema(), encoding="utf-8")
    for name, text in base().items():
        (folder / "base" / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
