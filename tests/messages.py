"""Brings the catalogues up to date with the code: `python -m tests.messages`, which is `make messages`.

New messages are added without a translation, those that are gone are dropped, and the catalogue is compiled. Says
which messages have none, and leaves with 1 then.
"""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Final

from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from t9ksched.cli.messages import CHINESE
from t9ksched.cli.messages.extraction import messages_in
from t9ksched.cli.messages.helptexts import of_commands
from t9ksched.cli.messages.phrasebook import DOMAIN, FOLDER

ROOT: Final = Path(__file__).parents[1]
_NO_DATE: Final = datetime(2000, 1, 1, tzinfo=UTC)
"""So that the same messages make the same file."""
SPEAKING: Final = (
    "t9ksched/cli",
    "t9ksched/engine/explain",
    "t9ksched/engine/placement",
    "t9ksched/admission",
    "t9ksched/importing",
    "t9ksched/model",
    *(f"t9ksched/scheduler/{room}" for room in ("act", "decide", "keep", "report", "serve", "state")),
    *(f"t9ksched/workloads/{name}.py" for name in ("arrays", "dependencies", "ending", "fields", "foreign", "gangs")),
    *(f"t9ksched/workloads/{name}.py" for name in ("jobspec", "lifecycle", "podspec", "queueing", "read", "reconcile")),
    *(
        f"t9ksched/workloads/{name}.py"
        for name in ("replica", "resubmission", "runmode", "settled", "taken", "training")
    ),
    *(f"t9ksched/workloads/kinds/{name}.py" for name in ("generic", "native", "notebook", "pytorch", "services")),
    *(f"t9ksched/workloads/compose/{name}.py" for name in ("asked", "job", "setting")),
    *(f"t9ksched/workloads/compose/sbatch/{name}.py" for name in ("lines", "meanings", "plan", "translation", "words")),
    "t9ksched/client",
    "t9ksched/kube/setup/devices.py",
    *(f"t9ksched/kube/setup/{name}.py" for name in ("doctor", "installation", "removal", "removing")),
    "t9ksched/devcluster/nodes/nodefile.py",
    "t9ksched/api/http",
    "t9ksched/api/submission",
    "t9ksched/api/routers",
)
"""Whose messages people read: the commands, and what of the service says why something waits or is refused."""


def template() -> Catalog:
    """All messages of the code, with the files that they stand in."""
    places: dict[str, set[str]] = {}
    for text, place in _messages():
        places.setdefault(text, set()).add(place)
    found = Catalog(project=DOMAIN, charset="utf-8")
    for text, where in sorted(places.items(), key=lambda one: (sorted(one[1]), one[0])):
        found.add(text, locations=[(place, 0) for place in sorted(where)])
    return found


def _messages() -> Iterator[tuple[str, str]]:
    for text, place in of_commands():
        yield text, place
    for folder in SPEAKING:
        for path in [ROOT / folder] if folder.endswith(".py") else sorted((ROOT / folder).rglob("*.py")):
            place = path.relative_to(ROOT).as_posix()
            yield from ((one.text, place) for one in messages_in(path.read_text()))


def shipped(language: str) -> Catalog:
    """The catalogue of a language as it is committed."""
    with (_folder(language) / f"{DOMAIN}.po").open("rb") as file:
        found = read_po(file, locale=language)
    found.creation_date = found.revision_date = _NO_DATE
    return found


def updated(language: str) -> Catalog:
    """The catalogue of a language with the messages of the code, no more and no fewer."""
    found = shipped(language)
    found.update(template(), no_fuzzy_matching=True)
    found.creation_date = found.revision_date = _NO_DATE
    return found


def source_of(found: Catalog) -> bytes:
    """The text of a catalogue."""
    out = BytesIO()
    write_po(out, found, width=120, sort_by_file=True, ignore_obsolete=True, omit_header=True, include_lineno=False)
    return _HEADER + out.getvalue()


def compiled(found: Catalog) -> bytes:
    """A catalogue as gettext reads it."""
    out = BytesIO()
    write_mo(out, found)
    return out.getvalue()


_HEADER: Final = b"""\
# Chinese messages of the command line. `make messages` adds and drops entries; translations are written here.
# Terms: docs/concepts/glossary.zh.md. `{name}` stands for a value, and must stand in the translation too.
msgid ""
msgstr ""
"Language: zh\\n"
"Content-Type: text/plain; charset=utf-8\\n"

"""


def _folder(language: str) -> Path:
    return FOLDER / language / "LC_MESSAGES"


def main() -> int:
    """Write the catalogue of each language anew."""
    found = updated(CHINESE)
    folder = _folder(CHINESE)
    (folder / f"{DOMAIN}.po").write_bytes(source_of(found))
    (folder / f"{DOMAIN}.mo").write_bytes(compiled(found))
    missing = [str(one.id) for one in found if one.id and not one.string]
    for text in missing:
        sys.stderr.write(f"no translation: {text}\n")
    return int(bool(missing))


if __name__ == "__main__":
    sys.exit(main())
