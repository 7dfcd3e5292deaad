"""Finds the options of a script: those on its `#SBATCH` lines in front of its first command, as sbatch reads them."""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from t9ksched.model.errors import FieldError, Invalid
from t9ksched.workloads.compose.sbatch.options import ALSO, FLAG, LETTERS, OPTIONS, PERHAPS

MARK: Final = "#SBATCH"
_COMMENT: Final = re.compile(r"(?:^|\s)#")
LARGEST: Final = 512 * 1024
"""Bytes of a script, which lies in a ConfigMap."""


@dataclass(frozen=True, slots=True)
class Given:
    """An option of a line, by its long name; `written` is what stands there, `value` None for none."""

    line: int
    name: str
    value: str | None
    written: str


@dataclass(frozen=True, slots=True)
class Script:
    """A script: its options in their order, and the numbers of `#SBATCH` lines that come too late to count."""

    text: str
    options: tuple[Given, ...]
    late: tuple[int, ...]


def is_script(content: bytes) -> bool:
    """Whether a file is a script, and no YAML or JSON."""
    return content.startswith(b"#!")


def read_script(content: bytes) -> Script:
    """A script with its options.

    Raises:
        Invalid: it is no text, it is too large, or a line cannot be read; paths are lines.
    """
    if len(content) > LARGEST:
        text = f"the script has {len(content)} bytes, and {LARGEST} are the most: let it fetch what it needs"
        raise Invalid.at("", text)
    try:
        script = content.decode()
    except UnicodeDecodeError as error:
        raise Invalid.at("", f"the script is not UTF-8: byte {error.start} cannot be read") from None
    if "\0" in script:
        raise Invalid.at("", "the script holds a byte 0, and no text does")
    if "\r\n" in script.partition("\n")[0] + "\n":
        raise Invalid.at("line 1", "ends as lines of Windows do, and no shell runs that: convert it (dos2unix)")
    options: list[Given] = []
    late: list[int] = []
    faults: list[FieldError] = []
    began = False
    for number, line in enumerate(script.split("\n"), 1):
        if line.startswith(MARK) and line[len(MARK) :][:1].isspace():
            if began:
                late.append(number)
                continue
            try:
                options += _options(number, line[len(MARK) :])
            except ValueError as error:
                faults.append(FieldError(f"line {number}", str(error)))
        elif line.strip() and not line.lstrip().startswith("#"):
            began = True
    if faults:
        raise Invalid(faults)
    return Script(script, tuple(options), tuple(late))


def _options(line: int, text: str) -> Iterator[Given]:
    words = _words(text)
    while words:
        word = words.pop(0)
        if word.startswith("--") and len(word) > 2:
            yield _long(line, word, words)
        elif word.startswith("-") and len(word) > 1:
            yield from _short(line, word, words)
        else:
            raise ValueError(f"{word!r} is no option: options begin with -")


def _words(text: str) -> list[str]:
    """The words in front of a comment, which begins with the first # that begins a word and stands in no quotes."""
    for end in [*(found.start() for found in _COMMENT.finditer(text)), len(text)]:
        try:
            return shlex.split(text[:end])
        except ValueError as error:
            fault = error
    raise ValueError(f"cannot be read: {str(fault).lower()}")


def _long(line: int, word: str, rest: list[str]) -> Given:
    written, equals, value = word[2:].partition("=")
    name = _name(written)
    _, kind = OPTIONS[name]
    if equals:
        if kind == FLAG:
            raise ValueError(f"--{name} takes no value")
        return Given(line, name, value, word)
    if kind in (FLAG, PERHAPS):
        return Given(line, name, None, word)
    return _with_next(line, name, word, rest)


def _short(line: int, word: str, rest: list[str]) -> Iterator[Given]:
    letters = word[1:]
    while letters:
        name = LETTERS.get(letters[0])
        if name is None:
            raise ValueError(f"-{letters[0]} is no option of sbatch")
        behind = letters[1:]
        if OPTIONS[name][1] == FLAG:
            yield Given(line, name, None, f"-{letters[0]}")
            letters = behind
        elif behind or OPTIONS[name][1] == PERHAPS:
            yield Given(line, name, behind.removeprefix("=") or None, f"-{letters}")
            return
        else:
            yield _with_next(line, name, word, rest)
            return


def _with_next(line: int, name: str, word: str, rest: list[str]) -> Given:
    if not rest:
        raise ValueError(f"{word} has no value")
    value = rest.pop(0)
    return Given(line, name, value, f"{word} {value}")


def _name(written: str) -> str:
    """The option that a word names, which may be cut as long as it is the only one."""
    if written in OPTIONS or written in ALSO:
        return ALSO.get(written, written)
    alike: Sequence[str] = [name for name in OPTIONS if name.startswith(written)]
    if len(alike) == 1:
        return alike[0]
    near = alike or get_close_matches(written, OPTIONS, 1)
    hint = f": did you mean {' or '.join(f'--{one}' for one in near[:3])}?" if near else ""
    raise ValueError(f"--{written} is no option of sbatch{hint}")
