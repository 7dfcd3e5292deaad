"""psycopg, which is loaded when it is first used: a start on SQLite goes without it, and is 40 ms of CPU shorter."""

import sys
from importlib.util import LazyLoader, find_spec, module_from_spec
from typing import TYPE_CHECKING, Any

__all__ = ["psycopg"]


def _on_use(name: str) -> Any:
    """The module of that name, as it is if loaded already; else one that loads itself at the first use of a member.

    Raises:
        ModuleNotFoundError: it is not installed.
    """
    if name in sys.modules:
        return sys.modules[name]
    spec = find_spec(name)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    spec.loader = LazyLoader(spec.loader)
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


if TYPE_CHECKING:
    import psycopg
else:
    psycopg = _on_use("psycopg")
