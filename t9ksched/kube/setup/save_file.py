"""The file of what an uninstallation makes again: written before anything is deleted, and read again by each run.

It is YAML that `kubectl create -f` takes. Each document begins with the UID of the object whose place it takes, which
is also an annotation of what is made; a comment `# made UID` follows once it was. So a run that was broken off at any
moment is continued, and nothing is made twice.
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from t9ksched.kube.port import Object
from t9ksched.model.names import SCHEDULER_GROUP
from t9ksched.model.text import YamlFault, read, write

MADE_FROM: Final = f"{SCHEDULER_GROUP}/made-from"
"""Annotation of what was made again: the UID of the object in whose place it is."""
_HEAD: Final = "# What t9ksched uninstall makes again, of the cluster "
_DOCUMENT: Final = re.compile(r"^--- # (\S+)$", re.MULTILINE)
_MADE: Final = re.compile(r"^# made (\S+)$", re.MULTILINE)


class NotSaved(ValueError):
    """A file that no uninstallation of this cluster wrote."""


class Saved(NamedTuple):
    """An object that is made again in the place of the one with that UID."""

    uid: str
    body: Object


class SaveFile:
    """The file, as it was read and as this run continues it."""

    def __init__(self, path: Path, cluster: str) -> None:
        """`cluster` tells one cluster from another.

        Raises:
            NotSaved: the file is there, and is none of an uninstallation of this cluster.
            OSError: it cannot be read.
        """
        self.path = path
        self._text = path.read_text() if path.exists() else f"{_HEAD}{cluster}\n"
        head, _, rest = self._text.partition("\n")
        if not head.startswith(_HEAD):
            raise NotSaved("was not written by t9ksched uninstall")
        if head != f"{_HEAD}{cluster}":
            raise NotSaved("was written for another cluster")
        self._made: set[str] = set()
        self._saved: dict[tuple[str, str, str], Saved] = {}
        parts = _DOCUMENT.split(rest)
        for uid, part in zip(parts[1::2], parts[2::2], strict=True):
            self._made.discard(uid)
            if (body := _body(uid, part)) is not None:
                self._saved[_key(body)] = Saved(uid, body)
            self._made.update(_MADE.findall(part))

    def left(self) -> list[Saved]:
        """What is not known to have been made; of one name, what was written last."""
        return [one for one in self._saved.values() if one.uid not in self._made]

    def add(self, those: Iterable[Saved]) -> None:
        """Write what is going to be made again, safe from a crash when this returns."""
        text = self._text
        for uid, body in those:
            one = Saved(uid, _marked(body, uid))
            if self._saved.get(_key(body)) != one or uid in self._made:
                self._made.discard(uid)
                self._saved[_key(body)] = one
                text += f"--- # {uid}\n{write(one.body)}"
        if text != self._text:
            self._replace(text)

    def made(self, uid: str) -> None:
        """Note that it was made."""
        self._made.add(uid)
        line = f"# made {uid}\n"
        self._text += line
        with self.path.open("a") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())

    def _replace(self, text: str) -> None:
        """The file has either the old text or the new one, whatever happens meanwhile."""
        new = self.path.with_name(f"{self.path.name}.new")
        new.unlink(missing_ok=True)
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.path)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        self._text = text


def _marked(body: Object, uid: str) -> Object:
    metadata = body["metadata"]
    return body | {"metadata": metadata | {"annotations": {**(metadata.get("annotations") or {}), MADE_FROM: uid}}}


def _key(body: Object) -> tuple[str, str, str]:
    return body["kind"], body["metadata"]["namespace"], body["metadata"]["name"]


def _body(uid: str, text: str) -> Object | None:
    """A document's object; None for one that was taken out by hand."""
    try:
        body: Object | None = read(text)
        if body is not None:
            _key(body)
    except (YamlFault, KeyError, TypeError) as error:
        raise NotSaved(f"cannot be read at the object {uid}: {error}") from None
    return body
