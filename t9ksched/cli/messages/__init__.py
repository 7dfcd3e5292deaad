"""What people read at a terminal, in their language: English, or Chinese where the environment says so.

The program speaks English inside: commands make sentences with f-strings, and so does the service. What is printed for
people is translated at the last moment, where it is printed. Nothing else is: JSON, logs and YAML stay as they are, and
commands need no marks for it.

A catalogue of gettext has the messages as templates, `{target} is being deleted`, which `extraction` finds in the code
and `make messages` keeps current. `phrasebook` recognises a sentence by its
template, `rendering` does so for what Rich prints, `helptexts` for `--help`. What is not recognised stays English.
"""

import os
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from t9ksched.cli.messages.phrasebook import Phrasebook

VARIABLES = ("T9KSCHED_LANG", "LC_ALL", "LC_MESSAGES", "LANG")
"""Variables that name the language; the first that is set decides."""
CHINESE = "zh"


def is_chinese(environment: Mapping[str, str]) -> bool:
    """Whether the environment asks for Chinese."""
    said = next((environment[name] for name in VARIABLES if environment.get(name)), "")
    return said.lower().startswith(CHINESE)


@cache
def book() -> "Phrasebook | None":
    """The phrasebook of the language that this process speaks; None for English, which needs none."""
    if not is_chinese(os.environ):
        return None
    from t9ksched.cli.messages.phrasebook import Phrasebook

    return Phrasebook.of(CHINESE)


def translated(text: str) -> str:
    """A sentence as it is shown to people."""
    own = book()
    return text if own is None else own.translate(text)


def word(text: str) -> str:
    """A heading or a single word of ours as it is shown to people, which must not be a name that a user chose."""
    own = book()
    return text if own is None else own.word(text)
