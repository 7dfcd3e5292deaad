"""Parts of libraries that a start does not need, and that importing the library would make all the same.

While `late()` lasts, which imports the program, these are put off until somebody asks for them:

* what a package in `PACKAGES` imports beside what is used of it: SQLAlchemy's object mapper, the command line of
  uvicorn, the tables of international names of hosts. It comes with the first other name that is asked of the package.
* the certificates of the system, which aiohttp reads twice while it is imported. They come with the first connection
  for which nobody named certificates.
* the validators of the OpenAPI document, which Pydantic builds for FastAPI. They come with the first document.

And the entry points of all packages are read once, not by each library that looks for plugins of its own; structlog
does without Rich, whose tracebacks our logs do not have; numpy's linear algebra does without a thread for each further
core, which spins for 60 ms before it sleeps: the matrices that are multiplied here are small.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import ssl

PACKAGES: Final[dict[str, dict[str, str]]] = {
    "idna": {},
    "sqlalchemy.ext.asyncio": dict.fromkeys(("AsyncConnection", "AsyncEngine", "create_async_engine"), "engine"),
    "uvicorn": {"Config": "config", "Server": "server"},
}
"""By package: the names that are used of it while we start, and the module of the package that has each."""
CONTEXTS: Final = "aiohttp.connector"
"""The module that makes contexts of TLS while it is imported."""
MODELS: Final = "fastapi.openapi.models"
"""The module of the OpenAPI document."""
INSTALLED: Final = "importlib.metadata"
"""The module that reads entry points: each time of all packages, which takes 5 ms."""
RICH: Final[dict[str, tuple[str, ...]]] = {
    "structlog.dev": ("rich", "rich.console", "rich.traceback"),
    "structlog.tracebacks": ("rich", "rich.pretty"),
}
"""By module: what it does without while it is imported."""
ARRAYS: Final = "numpy"
"""The package that loads a library of linear algebra, OpenBLAS."""
_THREADS: Final = "OPENBLAS_NUM_THREADS"
"""The variable of the environment that says how many threads OpenBLAS has."""


class _Differently(Loader):
    """Another loader, as far as it does not execute the module itself."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As that loader does."""
        return self._loader.create_module(spec)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


class _Late(_Differently):
    """Loads a package when a name is asked of it that is not there and is none of its modules, such as one that its
    `__init__.py` imports.
    """

    def exec_module(self, module: ModuleType) -> None:
        """Have nothing executed yet."""
        names, used, lock = vars(module), PACKAGES[module.__name__], threading.RLock()

        def ask(name: str) -> Any:
            # An import asks for names of a module's specification, which mean something by their absence.
            if name.startswith("__") and name != "__all__":
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            if name in used:
                return getattr(import_module(f"{module.__name__}.{used[name]}"), name)
            if PathFinder.find_spec(f"{module.__name__}.{name}", module.__path__) is not None:
                return import_module(f"{module.__name__}.{name}")
            with lock:
                if names.get("__getattr__") is ask:
                    del names["__getattr__"]
                    self._loader.exec_module(module)
            return getattr(module, name)

        names["__getattr__"] = ask


class _WithoutCertificates(_Differently):
    """Executes a module; contexts of TLS that it makes read the system's certificates when they are used."""

    def exec_module(self, module: ModuleType) -> None:
        """Execute it."""
        import ssl

        read = ssl.SSLContext.set_default_verify_paths
        ssl.SSLContext.set_default_verify_paths = _when_used  # type: ignore[method-assign, assignment]
        try:
            self._loader.exec_module(module)
        finally:
            ssl.SSLContext.set_default_verify_paths = read  # type: ignore[method-assign]


class _WithoutValidators(_Differently):
    """Executes a module; validators of its models are built when they are used."""

    def exec_module(self, module: ModuleType) -> None:
        """Execute it."""
        from pydantic import BaseModel

        BaseModel.model_config["defer_build"] = True
        try:
            self._loader.exec_module(module)
        finally:
            del BaseModel.model_config["defer_build"]


class _WithoutRich(_Differently):
    """Executes a module that works with and without Rich, without."""

    def exec_module(self, module: ModuleType) -> None:
        """Execute it."""
        there = {name: sys.modules.pop(name, None) for name in RICH[module.__name__]}
        sys.modules.update(dict.fromkeys(there))  # type: ignore[arg-type]
        try:
            self._loader.exec_module(module)
        finally:
            for name, had in there.items():
                del sys.modules[name]
                if had is not None:
                    sys.modules[name] = had


class _OneThread(_Differently):
    """Executes a module with one thread for linear algebra, unless the environment says how many. What this process
    starts later has the environment as it was.
    """

    def exec_module(self, module: ModuleType) -> None:
        """Execute it."""
        if _THREADS in os.environ:
            self._loader.exec_module(module)
            return
        os.environ[_THREADS] = "1"
        try:
            self._loader.exec_module(module)
        finally:
            del os.environ[_THREADS]


def _when_used(context: "ssl.SSLContext") -> None:
    """The context reads the certificates with its first connection."""

    def use(name: str, *arguments: Any, **named: Any) -> Any:
        for each in _USES:
            vars(context).pop(each, None)
        context.set_default_verify_paths()
        return getattr(context, name)(*arguments, **named)

    for name in _USES:
        setattr(context, name, partial(use, name))


_USES: Final = ("wrap_bio", "wrap_socket", "get_ca_certs", "cert_store_stats")


class _ReadOnce(_Differently):
    """Executes the module that reads what is installed; what it read of entry points it keeps."""

    def exec_module(self, module: ModuleType) -> None:
        """Execute it."""
        self._loader.exec_module(module)
        read = cache(module.entry_points)
        module.entry_points = lambda **asked: read().select(**asked) if asked else read()  # type: ignore[attr-defined]


class _Finder(MetaPathFinder):
    """Finds the modules whose import is to be different."""

    _made: Final[dict[str, Callable[[Loader], Loader]]] = {
        **dict.fromkeys(PACKAGES, _Late),
        **dict.fromkeys(RICH, _WithoutRich),
        ARRAYS: _OneThread,
        CONTEXTS: _WithoutCertificates,
        MODELS: _WithoutValidators,
        INSTALLED: _ReadOnce,
    }

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module as it is found anyway, with a loader of ours."""
        made = self._made.get(fullname)
        spec = PathFinder.find_spec(fullname, path, target) if made is not None else None
        if made is not None and spec is not None and spec.loader is not None:
            spec.loader = made(spec.loader)
        return spec


@contextmanager
def late() -> Iterator[None]:
    """Imports in the block leave out what is not needed yet."""
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
