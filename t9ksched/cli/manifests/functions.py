"""The functions of Go's templates and of Helm that our chart calls."""

from typing import Any, Final

import yaml

from t9ksched.cli.manifests.gotemplate import Function, TemplateError, shown, truth


def _to_yaml(value: Any) -> str:
    return yaml.safe_dump(value, default_flow_style=False, allow_unicode=True, width=10_000).removesuffix("\n")


def _indent(width: int, text: str) -> str:
    return "\n".join(" " * width + line for line in text.split("\n"))


def _quote(value: Any) -> str:
    escaped = shown(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _and(*values: Any) -> Any:
    return next((one for one in values if not truth(one)), values[-1])


def _or(*values: Any) -> Any:
    return next((one for one in values if truth(one)), values[-1])


def _printf(form: str, *values: Any) -> str:
    return form.replace("%d", "%s").replace("%v", "%s") % tuple(map(shown, values))


def _dict(*pairs: Any) -> dict[str, Any]:
    return dict(zip(pairs[::2], pairs[1::2], strict=True))


def _fail(message: str) -> str:
    raise TemplateError(message)


FUNCTIONS: Final[dict[str, Function]] = {
    "and": _and,
    "default": lambda otherwise, value=None: value if truth(value) else otherwise,
    "dict": _dict,
    "eq": lambda one, *others: one in others,
    "fail": _fail,
    "int": int,
    "nindent": lambda width, text: f"\n{_indent(width, text)}",
    "indent": _indent,
    "ne": lambda one, other: one != other,
    "not": lambda value: not truth(value),
    "or": _or,
    "printf": _printf,
    "quote": _quote,
    "toYaml": _to_yaml,
}
