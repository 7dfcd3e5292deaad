"""Translates sentences that were made from templates: finds the template, and puts the values into its translation.

Several templates may make one sentence, and values may be phrases with templates of their own. Of all readings of a
text the one is taken that leaves the fewest English words; of equal ones that of the longest templates. A value without
a blank is a name, a number or a code, and stays as it is.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from gettext import GNUTranslations
from pathlib import Path
from typing import Any, Final, NamedTuple

from t9ksched.cli.messages.extraction import HOLE

FOLDER: Final = Path(__file__).parent
DOMAIN: Final = "t9ksched"
_LONGEST: Final = 4000
"""Characters; longer texts are shown as they are."""
_SURE: Final = 3
"""Words of its own that a template needs to be believed where its values are not understood."""
_HEAVY: Final = 100
"""The weight of a phrase that is one whatever stands before it."""
_NUMBER: Final = "count"
"""The name of values that are one word."""
_REMEMBERED: Final = 20_000
_ENGLISH: Final = re.compile(r"(?:^|(?<=[\s('\"]))[A-Za-z]?[a-z]+(?=$|\s|[.,;:!?)'\"]+(?:\s|$))")
"""A word of prose, not of a path, an option or a name with signs in it."""
_WORD: Final = re.compile("[A-Za-z]+")
_TOUCHED: Final = re.compile(r"[A-Za-z]*\{\w+\}[A-Za-z]*")
_TRIED: Final = 8
"""Readings by templates that are compared, those of the longest ones."""
_COMMAND: Final = re.compile(r"\S*\bt9ksched (?!is |did )")
"""A command as it is typed begins so."""
_MARKS: Final = ((". ", "。"), ("; ", "；"), (": ", "："), (", ", "，"), (" and ", "和"), (" or ", "或"))
"""What joins phrases, with what does so in Chinese; the strongest first."""
_JOINTS: Final = ",;: ，；：（"
"""What the end of a sentence may begin with, which is cut off where sentences are taken apart."""
_CHINESE: Final = "\u3001-\u9fff\uff01-\uff60"
_SPACED: Final = re.compile(f"(?<=[{_CHINESE}]) (?=[（，。；：、！？])|(?<=[，。；：、（！？]) (?=[^ ])")


class Template(NamedTuple):
    """One message with values. `words` is how many it has of its own."""

    source: str
    translation: str
    weight: int
    words: int


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
        "once",
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


THINGS: Final = (
    *("{count} node", "{count} nodes", "{count} pod", "{count} pods", "{count} job", "{count} jobs"),
    *("{count} member", "{count} members", "{count} lost member", "{count} lost members"),
    *("{count} card", "{count} cards", "{count} more pod", "{count} more pods", "{count} more"),
    *("{count} task", "{count} tasks", "{count} core", "{count} cores", "{count} device", "{count} devices"),
)
"""What sentences of the service and of commands count by one function for all things."""


class Reading(NamedTuple):
    """A translation, how many English words it leaves, and the weight of its templates."""

    text: str
    left: int
    weight: int = 0


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
        self._patterns: dict[str, tuple[re.Pattern[str], re.Pattern[str]]] = {}

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
    def _templates(self) -> dict[str, list[Template]]:
        """The templates by a word that each text of them has, the rarest; by none where there is no such word."""
        made = [_template(source, told) for source, told in self._messages.items() if HOLE.search(source)]
        words = [_whole_words(one.source) for one in made]
        often = Counter(word for each in words for word in each)
        found: dict[str, list[Template]] = {}
        for template, each in zip(made, words, strict=True):
            found.setdefault(min(each, key=lambda word: (often[word], word), default=""), []).append(template)
        return found

    def _candidates(self, text: str) -> list[Template]:
        """The templates that may have made a text, the longest first."""
        words = dict.fromkeys(["", *_WORD.findall(text)])
        return sorted((one for word in words for one in self._templates.get(word, ())), key=lambda one: -one.weight)

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
            return Reading(self._messages[text], 0, _weight(text))
        if _COMMAND.match(text):
            found = self._of_templates(text, _SURE)
            return Reading(text, 0) if found is None else found[0]
        left = len(_ENGLISH.findall(text))
        if not left or len(text) > _LONGEST:
            return Reading(text, left)
        return min(self._readings(text, Reading(text, left)), key=lambda one: (one.left, -one.weight))

    def _readings(self, text: str, untouched: Reading) -> Iterator[Reading]:
        yield untouched
        if (found := self._of_templates(text)) is not None:
            yield found[0]
        if "\n" in text:
            yield self._of_parts(text.partition("\n"), "\n")
            return
        name, _, said = text.partition(" ")
        is_name = not _ENGLISH.match(name) and name[-1] not in _JOINTS
        counts = name.isdigit() and " " in said and bool(_ENGLISH.match(said))  # things, and something said of them
        if is_name and (not counts or said in self._messages):
            read = self._read(said)
            yield read._replace(text=f"{name} {read.text}", weight=read.weight // (1 if read.weight > _HEAVY else 2))
        if text.endswith(".") and not text.endswith(".."):
            read = self._read(text[:-1])
            yield read._replace(text=f"{read.text}{'.' if read.left else '。'}")
        for mark, chinese in _MARKS:
            if mark in text:
                yield self._of_parts(text.partition(mark), chinese)
                yield self._of_parts(text.rpartition(mark), chinese)

    def _of_templates(self, text: str, least: int = 0) -> tuple[Reading, dict[str, str]] | None:
        """The best reading by one template of so many words, and its values as they are shown."""
        best: tuple[Reading, dict[str, str]] | None = None
        fitting = 0
        for template in self._candidates(text):
            if template.words < least:
                continue
            for pattern in self._patterns_of(template.source):
                found = pattern.fullmatch(text)
                if found is None:
                    break
                fitting += 1
                values = {name: self._read(value) for name, value in found.groupdict().items()}
                left = sum(value.left for value in values.values())
                if left and template.words < _SURE:
                    continue  # `{name} is {phase}` reads much that is another sentence
                weight = template.weight + sum(value.weight for value in values.values())
                weight -= sum(any(mark in value for mark, _ in _MARKS) for value in found.groupdict().values())
                if best is None or (left, -weight) < (best[0].left, -best[0].weight):
                    shown = {name: value.text for name, value in values.items()}
                    best = Reading(_filled(template.translation, shown), left, weight), shown
            if fitting >= _TRIED:
                break
        return best

    def _of_parts(self, parts: tuple[str, str, str], chinese: str) -> Reading:
        """The reading of what stands before and behind a mark; with that of Chinese where all is Chinese then."""
        before, mark, behind = self._read(parts[0]), parts[1], self._read(parts[2])
        left, weight = before.left + behind.left, before.weight + behind.weight
        weight -= sum(bool(_ENGLISH.fullmatch(part)) for part in parts[::2])
        return Reading(f"{before.text}{mark if left or not weight else chinese}{behind.text}", left, weight)

    def _patterns_of(self, source: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
        """Patterns of a template: one whose values are as short as they can be, one with long ones."""
        if source not in self._patterns:
            self._patterns[source] = _pattern(source, ".*?"), _pattern(source, ".*")
        return self._patterns[source]


def _pattern(source: str, more: str) -> re.Pattern[str]:
    """The pattern of a template. A value that follows a word or another value without a blank may be empty, or goes on
    with a mark or a blank of its own; others are not empty.
    """
    at, parts = 0, []
    for found in HOLE.finditer(source):
        before = source[found.start() - 1 : found.start()]
        goes_on = before.islower() or before.isdigit() or before in (")", "}")
        taken = r"\S+" if found[1] == _NUMBER else f"(?:[\\s,;:.(]{more})?" if goes_on else f".{more}"
        parts += [re.escape(source[at : found.start()]), f"(?P<{_group(found[1])}>{taken})"]
        at = found.end()
    return re.compile("".join([*parts, re.escape(source[at:])]), re.DOTALL)


def _group(name: str) -> str:
    return f"v{name}" if name[0].isdigit() else name


def _is_phrase(text: str) -> bool:
    return " " in text.strip() or "\n" in text


def _template(source: str, translation: str) -> Template:
    own = HOLE.split(source)[::2]
    words = sum(len(_ENGLISH.findall(part)) for part in own)
    return Template(source, translation, _weight("".join(own)) + bool(own[0]), words)


def _whole_words(source: str) -> list[str]:
    """The words of a template of which no value is a part."""
    return _WORD.findall(_TOUCHED.sub(" ", source))


def _weight(text: str) -> int:
    """What a template of these letters counts: a long one is more likely to be meant than several short ones."""
    return sum(map(str.isalpha, text)) ** 2


def _filled(translation: str, values: Mapping[str, str]) -> str:
    """The translation with its values. A blank stands between Chinese and a word, none beside a Chinese mark."""
    text = ""
    for at, part in enumerate(HOLE.split(translation)):
        if at % 2:
            part = values.get(_group(part), f"{{{part}}}")
        if _is_chinese(text[-1:]) and _is_chinese(part.lstrip()[:1]):
            part = part.lstrip()
        text += " " * _is_seam(text[-1:], part[:1]) + part
    return _SPACED.sub("", text)


def _is_seam(before: str, after: str) -> bool:
    """Whether Chinese and a word meet."""
    pairs = ((before, after), (after, before))
    return any(one.isascii() and one.isalnum() and _is_chinese(other) for one, other in pairs)


def _is_chinese(character: str) -> bool:
    return "\u4e00" <= character <= "\u9fff"
