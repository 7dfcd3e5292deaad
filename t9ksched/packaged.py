"""Where the files shipped beside the code are found.

A wheel carries them inside the package; a checkout has them at its top level. Callers ask by name and never know which.
"""

from pathlib import Path
from typing import Literal

Shipped = Literal["migrations", "crds", "examples", "chart"]

_PACKAGE = Path(__file__).resolve().parent
_PLACES: dict[Shipped, tuple[str, str]] = {
    "migrations": ("migrations", "migrations"),
    "crds": ("chart/crds", "deploy/crds"),
    "examples": ("examples", "examples"),
    "chart": ("chart", "deploy/chart"),
}
"""Where each is in the package, and in a checkout."""


def folder(name: Shipped) -> Path:
    """The folder of that name, from the installed package first, else from the checkout around it.

    Raises:
        FileNotFoundError: neither place has it, which means a broken installation.
    """
    packaged, beside = _PLACES[name]
    for place in (_PACKAGE / packaged, _PACKAGE.parent / beside):
        if place.is_dir():
            return place
    raise FileNotFoundError(f"the folder {name!r} is missing from this installation of t9ksched: install it again")
