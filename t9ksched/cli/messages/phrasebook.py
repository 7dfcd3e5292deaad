"""Translates sentences that were made from templates: finds the template, and puts the values into its translation.

Several templates may make one sentence, and values may be phrases with templates of their own. Of all readings of a
text the one is taken that leaves the fewest English words; of equal ones that of the template with the most letters.
A value without a blank is a name, a number or a code, and stays as it is.
"""

import re
from collections.abc import Mapping
from functools import cached_property
from gettext import GNUTranslations
from pathlib import Path
from typing import Any, Final, NamedTuple

from t9ksched.cli.messages.extraction import HOLE

FOLDER: Final = Path(__file__).parent
DOMAIN: Final = "t9ksched"
_LONGEST: Final = 4000
"""Characters; longer texts are taken apart by lines only."""
_SURE: Final = 3
"""Words of its own that a template needs to be believed where its values are not understood."""
_REMEMBERED: Final = 20_000
_ENGLISH: Final = re.compile(r"(?:^|(?<=[\s('\"]))[A-Za-z]?[a-z]+(?=$|[\s.,;:!?)'\"])")
"""A word of prose, not of a path, an option or a name with signs in it."""
_MARKS: Final = ((". ", "。"), ("; ", "；"), (": ", "："), (", ", "，"), (" and ", "和"), (" or ", "或"))
"""What joins phrases, with what does so in Chinese; the strongest first."""
_JOINTS: Final = ",;: ，；：（"
"""What the end of a sentence may begin with, which is cut off where sentences are taken apart."""
_CHINESE: Final = "\u3001-\u9fff\uff01-\uff60"
_SPACED: Final = re.compile(f"(?<=[{_CHINESE}]) (?=[（，。；：、！？])|(?<=[，。；：、（！？]) (?=[^ ])")


class Template(NamedTuple):
    """One message with values. `letters` and `words` are how many it has of its own, `anchor` a part that any text of
    it has.
    """

    source: str
    translation: str
    letters: int
    words: int
    anchor: str


_FUNCTION_WORDS: Final = frozenset(
    {
        "a",
        "all",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "by",
        "for",
        "has",
        "in",
        "is",
        "it",
        "its",
        "no",
        "not",
        "of",
        "on",
    }
    | {
        "or",
        "so",
        "that",
        "the",
        "there",
        "these",
        "this",
        "to",
        "was",
        "were",
        "which",
        "with",
        "It",
        "The",
        "Nothing",
    }
)
"""Words that are never names: a template that takes one for a value has cut a sentence in the wrong place."""


class Reading(NamedTuple):
    """A translation, how many English words it leaves, and how many letters its template has."""

    text: str
    left: int
    letters: int = 0


class _Catalogue(GNUTranslations):
    """A catalogue of gettext whose messages can be listed."""

    messages: Mapping[str, str]

    def _parse(self, fp: Any) -> None:
        super()._parse(fp)
        self.messages = {key: value for key, value in self._catalog.items() if key}  # type: ignore[attr-defined]


class Phrasebook:
    """All messages in one language."""

    def __init__(self, messages: Mapping[str, str]) -> None:
        self._messages = {
            **{
                source.lstrip(_JOINTS): told.lstrip(_JOINTS)
                for source, told in messages.items()
                if source[0] in _JOINTS
            },
            **messages,
        }
        self._known: dict[str, Reading] = {}
        self._patterns: dict[str, re.Pattern[str]] = {}

    @classmethod
    def of(cls, language: str) -> "Phrasebook":
        """The phrasebook that is shipped for a language."""
        with (FOLDER / language / "LC_MESSAGES" / f"{DOMAIN}.mo").open("rb") as file:
            return cls(_Catalogue(file).messages)

    def translate(self, text: str) -> str:
        """A sentence, or several; a single word is taken for a name."""
        return self._read(text).text if _is_phrase(text) else text

    def word(self, text: str) -> str:
        """A heading or a word."""
        bare = text.strip()
        return text.replace(bare, self._messages[bare], 1) if bare in self._messages else self.translate(text)

    def values(self, text: str) -> dict[str, str] | None:
        """What stands in the places of the template that a text is recognised by; None if it is by none as a whole."""
        bare = text.strip()
        found = self._of_templates(bare)
        return None if found is None else found[1]

    @cached_property
    def _templates(self) -> list[Template]:
        """Those with the most letters first."""
        return sorted(
            (_template(source, told) for source, told in self._messages.items() if HOLE.search(source)),
            key=lambda one: -one.letters,
        )

    def _read(self, text: str) -> Reading:
        """The best reading of a text."""
        bare = text.strip()
        if bare not in self._known:
            if len(self._known) > _REMEMBERED:
                self._known.clear()
            self._known[bare] = self._best(bare)
        found = self._known[bare]
        return found if bare == text else found._replace(text=text.replace(bare, found.text, 1))

    def _best(self, text: str) -> Reading:
        """The best reading of a text without blanks at its ends."""
        if not _is_phrase(text):
            return Reading(text, int(text in _FUNCTION_WORDS))
        if text in self._messages:
            return Reading(self._messages[text], 0, len(text))
        best = Reading(text, len(_ENGLISH.findall(text)))
        if not best.left:
            return best
        if "\n" in text or len(text) > _LONGEST:
            return self._of_lines(text) if "\n" in text else best
        name, _, said = text.partition(" ")
        if not _ENGLISH.match(name) and said in self._messages:
            return Reading(f"{name} {self._messages[said]}", 0)  # a name, and what is said of it
        if (found := self._of_templates(text)) is not None and found[0].left < best.left:
            best = found[0]
        if best.left and not _ENGLISH.match(name):
            read = self._read(said)
            best = min(best, read._replace(text=f"{name} {read.text}"), key=lambda one: one.left)
        if best.left and text.endswith(".") and not text.endswith(".."):
            inner = self._read(text[:-1])
            if inner.left < best.left:
                best = inner._replace(text=f"{inner.text}。" if inner.text != text[:-1] else text)
        for mark, chinese in _MARKS:
            if not best.left:
                break
            if mark in text:
                best = min(best, self._of_parts(text, mark, chinese), key=lambda one: one.left)
        return best

    def _of_lines(self, text: str) -> Reading:
        if (found := self._of_templates(text)) is not None and not found[0].left:
            return found[0]
        lines = [self._read(line) for line in text.split("\n")]
        return Reading("\n".join(line.text for line in lines), sum(line.left for line in lines))

    def _of_templates(self, text: str) -> tuple[Reading, dict[str, str]] | None:
        """The best reading by one template, and its values as they are shown."""
        best: tuple[Reading, dict[str, str]] | None = None
        for template in self._templates:
            if template.anchor not in text:
                continue
            found = self._pattern(template.source).fullmatch(text)
            if found is None:
                continue
            values = {name: self._read(value) for name, value in found.groupdict().items()}
            left = sum(value.left for value in values.values())
            if left and template.words < _SURE:
                continue  # `{name} is {phase}` reads much that is another sentence
            if best is None or left < best[0].left:
                shown = {name: value.text for name, value in values.items()}
                best = Reading(_filled(template.translation, shown), left, template.letters), shown
                if not left:
                    break
        return best

    def _of_parts(self, text: str, mark: str, chinese: str) -> Reading:
        """The reading of each part between marks; with Chinese marks where all of it is Chinese then."""
        parts = text.split(mark)
        read = [self._read(part) for part in parts]
        left = sum(one.left for one in read)
        is_chinese = any(one.text != part for one, part in zip(read, parts, strict=True)) and not left
        return Reading((chinese if is_chinese else mark).join(one.text for one in read), left)

    def _pattern(self, source: str) -> re.Pattern[str]:
        if source not in self._patterns:
            at, parts = 0, []
            for found in HOLE.finditer(source):
                parts += [re.escape(source[at : found.start()]), f"(?P<{_group(found[1])}>.*?)"]
                at = found.end()
            self._patterns[source] = re.compile("".join([*parts, re.escape(source[at:])]), re.DOTALL)
        return self._patterns[source]


def _group(name: str) -> str:
    return f"v{name}" if name[0].isdigit() else name


def _is_phrase(text: str) -> bool:
    return " " in text.strip() or "\n" in text


def _template(source: str, translation: str) -> Template:
    own = HOLE.split(source)[::2]
    words = sum(len(_ENGLISH.findall(part)) for part in own)
    return Template(source, translation, sum(map(str.isalpha, "".join(own))), words, max(own, key=len))


def _filled(translation: str, values: Mapping[str, str]) -> str:
    """The translation with its values. No blank stands beside a Chinese mark."""
    text = HOLE.sub(lambda found: values.get(_group(found[1]), found[0]), translation)
    return _SPACED.sub("", text)
