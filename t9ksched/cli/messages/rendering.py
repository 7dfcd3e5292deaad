"""A console of Rich that translates what it prints for people."""

import re
from itertools import pairwise
from typing import Any, Final

from rich import _wrap
from rich.console import Console
from rich.text import Text

from t9ksched.cli.messages.phrasebook import Phrasebook

_ANYWHERE: Final = "\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff"
_NOT_FIRST: Final = "、。，．：；？！）」』】〉》”’…"
_NOT_LAST: Final = "（「『【〈《“‘"
_WORDS: Final = re.compile(
    rf"\s*(?:[{_NOT_LAST}]*[{_ANYWHERE}][{_NOT_FIRST}]*|[^\s{_ANYWHERE}{_NOT_FIRST}{_NOT_LAST}]+[{_NOT_FIRST}]*|\S)\s*"
)
"""What a line is broken between: words, and characters of Chinese with the marks that may not begin or end a line."""


def break_chinese() -> None:
    """Let Rich break lines of Chinese as Chinese is written: it breaks only at blanks, of which there are few."""
    _wrap.re_word = _WORDS


class TranslatingConsole(Console):
    """Prints texts in the language of a phrasebook; tables and the like as they are, since those who make them
    translate their words.
    """

    def __init__(self, book: Phrasebook, **settings: Any) -> None:
        super().__init__(**settings)
        self._book = book
        break_chinese()

    def print(self, *objects: Any, **settings: Any) -> None:
        """As `Console.print`."""
        super().print(*(shown(one, self._book) for one in objects), **settings)


def shown(value: Any, book: Phrasebook) -> Any:
    """What is printed in the place of a text; anything else as it is."""
    if isinstance(value, str):
        return book.translate(value)
    return styled(value, book) if isinstance(value, Text) else value


def styled(text: Text, book: Phrasebook) -> Text:
    """A text with styles: in a sentence the values keep theirs; otherwise each part of a style is translated alone."""
    plain = text.plain
    if not text.spans:
        return _like(text, [(book.word(plain) if text.style else book.translate(plain), "")])
    first = text.spans[0]
    is_mark = not any(map(str.isalnum, plain[first.start : first.end]))
    if not is_mark and book.values(plain) is not None:
        return _with_values(text, book.translate(plain))
    edges = sorted({0, len(plain), *(edge for span in text.spans for edge in (span.start, span.end))})
    parts = []
    for start, end in pairwise(edges):
        part = plain[start:end]
        style = next((span.style for span in reversed(text.spans) if span.start <= start and end <= span.end), None)
        parts.append((book.translate(part) if style is None else book.word(part), style or ""))
    return _like(text, parts)


def _with_values(text: Text, translation: str) -> Text:
    """The translation of a whole sentence, in which the words that had a style have it again."""
    made = _like(text, [(translation, "")])
    for span in text.spans:
        words = text.plain[span.start : span.end]
        at = translation.find(words)
        if at >= 0:
            made.stylize(span.style, at, at + len(words))
    return made


def _like(text: Text, parts: list[tuple[str, Any]]) -> Text:
    made = Text(style=text.style, justify=text.justify, overflow=text.overflow, no_wrap=text.no_wrap, end=text.end)
    for part, style in parts:
        made.append(part, style or None)
    return made
