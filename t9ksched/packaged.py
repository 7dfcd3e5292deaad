"""Where the files shipped beside the code are found.

A wheel carries them inside the package; a checkout has them at its top level. Callers ask by name and never know which.
"""

from pathlib import Path
from typing import Literal

Shipped = Literal["migrations", "crds", "examples"]

_PACKAGE = Path(__file__).resolve().parent
_IN_CHECKOUT: dict[Shipped, str] = {"migrations": "migrations", "crds": "deploy/crds", "examples": "examples"}


def folder(name: Shipped) -> Path:
    """The folder of that name, from the installed package first, else from the checkout around it.

    Raises:
        FileNotFoundError: neither place has it, which means a broken installation.
    """
    for place in (_PACKAGE / name, _PACKAGE.parent / _IN_CHECKOUT[name]):
        if place.is_dir():
            return place
    raise FileNotFoundError(f"the folder {name!r} is missing from this installation of t9ksched: install it again")
