"""Compiles the native kernel of the engine into the package, where a C compiler is found; without one nothing is lost
but speed.

Hatchling runs it when a wheel is made or the project is installed. `python hatch_build.py` does the same for a working
tree: it says what is missing, and with `--required` leaves with 1 then.
"""

import ctypes
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

FOLDER = Path("t9ksched/engine/kernel")
LIBRARY = FOLDER / "_kernel.so"
FLAGS = ("-std=gnu11", "-O3", "-fwrapv", "-Wall", "-Wextra", "-fPIC", "-shared", "-s")


def compiler() -> list[str] | None:
    """The command of a C compiler: what CC names, that of the system, or that of the package `ziglang`."""
    if named := os.environ.get("CC"):
        return shlex.split(named)
    for name in ("cc", "gcc", "clang"):
        if found := shutil.which(name):
            return [found]
    if importlib.util.find_spec("ziglang"):
        # Zig compiles for the very processor at hand if it is not told otherwise.
        return [sys.executable, "-m", "ziglang", "cc", "-mcpu=baseline"]
    return None


def build(root: Path) -> str:
    """Compile the kernel under `root`; why it is not there, empty where it is."""
    library = root / LIBRARY
    command = compiler()
    if command is None:
        return "there is no C compiler (cc, gcc, clang, or the package ziglang)"
    made = library.with_suffix(".new")
    define = f'-DSOURCE="{_digest(root)}"'
    arguments = [*command, *FLAGS, define, "-o", str(made), *map(str, _sources(root))]
    try:
        done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    except OSError as error:
        return f"{command[0]} cannot be run: {error.strerror}"
    if done.returncode:
        made.unlink(missing_ok=True)
        return f"`{shlex.join(arguments)}` failed:\n{done.stderr.strip()}"
    made.replace(library)
    return ""


def is_built(root: Path) -> bool:
    """Whether a library of these sources and for this machine is there."""
    try:
        library = ctypes.CDLL(str(root / LIBRARY))
        library.source.restype = ctypes.c_char_p
        return bool(library.source() == _digest(root).encode())
    except (OSError, AttributeError):
        return False


def _sources(root: Path) -> list[Path]:
    return sorted((root / FOLDER).glob("*.c"))


def _digest(root: Path) -> str:
    return hashlib.sha256(b"".join(source.read_bytes() for source in _sources(root))).hexdigest()


def ship(root: Path, version: str, build_data: dict[str, Any]) -> str:
    """Compile it for a wheel, and tell Hatchling by its `build_data` what the wheel has; why it is not there.

    `version` is "editable" where a working tree is installed, which needs no copy.
    """
    missing = build(root)
    if not missing and version != "editable":
        build_data["artifacts"].append(f"/{LIBRARY.as_posix()}")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{re.sub('[-.]', '_', sysconfig.get_platform())}"
    return missing


try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # run as a program
    pass
else:

    class Kernel(BuildHookInterface):
        """The hook of Hatchling."""

        PLUGIN_NAME = "custom"

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            """Called before a wheel is put together."""
            if missing := ship(Path(self.root), version, build_data):
                self.app.display_warning(f"t9ksched is installed without its native kernel: {missing}")


def main() -> int:
    """Compile it here, unless that is done."""
    root = Path(__file__).parent
    missing = "" if is_built(root) else build(root)
    if missing:
        print(f"The native kernel is not compiled, which costs only speed: {missing}", file=sys.stderr)
    return int(bool(missing) and "--required" in sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
