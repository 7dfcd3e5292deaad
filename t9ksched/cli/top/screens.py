"""The windows over `top`: a text, the log of a job, and a question."""

import threading
from collections.abc import Callable
from typing import ClassVar, Final

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import RichLog, Static

from t9ksched.cli.messages import translated, word

_MOST_LINES: Final = 5000


class TextScreen(ModalScreen[None]):
    """A text that can be scrolled."""

    BINDINGS: ClassVar = [Binding("escape,q,e", "dismiss", word("Close"))]
    DEFAULT_CSS = """
    TextScreen { align: center middle; }
    TextScreen > VerticalScroll { width: 90%; height: 80%; border: round $primary; background: $surface; padding: 0 1; }
    """

    def __init__(self, title: str, text: Text) -> None:
        super().__init__()
        self._title = title
        self._text = text

    def compose(self) -> ComposeResult:
        """The text in a frame."""
        frame = VerticalScroll(Static(self._text))
        frame.border_title = self._title
        frame.border_subtitle = translated("Esc closes")
        yield frame


class LogScreen(ModalScreen[None]):
    """Lines as they come. `follow` is called in a thread with a function that takes lines until it returns False."""

    BINDINGS: ClassVar = [Binding("escape,q,l", "dismiss", word("Close"))]
    DEFAULT_CSS = """
    LogScreen { align: center middle; }
    LogScreen > RichLog { width: 96%; height: 90%; border: round $primary; background: $surface; }
    """

    def __init__(self, title: str, follow: Callable[[Callable[[str], bool]], None]) -> None:
        super().__init__()
        self._title = title
        self._follow = follow
        self._left = threading.Event()

    def compose(self) -> ComposeResult:
        """The lines in a frame."""
        lines = RichLog(max_lines=_MOST_LINES, wrap=True, markup=False)
        lines.border_title = self._title
        lines.border_subtitle = translated("Esc closes")
        yield lines

    def on_mount(self) -> None:
        """Begin to follow."""
        threading.Thread(target=self._run, daemon=True, name="log").start()

    def on_unmount(self) -> None:
        """Follow no more."""
        self._left.set()

    def _run(self) -> None:
        self._follow(self._line)

    def _line(self, line: str) -> bool:
        if self._left.is_set():
            return False
        try:
            self.app.call_from_thread(self._write, line)
        except RuntimeError:  # the program ends
            return False
        return True

    def _write(self, line: str) -> None:
        if not self._left.is_set():
            self.query_one(RichLog).write(Text(line))


class AskScreen(ModalScreen[bool]):
    """A question that is answered by y or n."""

    BINDINGS: ClassVar = [
        Binding("y", "answer(True)", word("Yes")),
        Binding("n,escape,q", "answer(False)", word("No")),
    ]
    DEFAULT_CSS = """
    AskScreen { align: center middle; }
    AskScreen > Static { width: auto; max-width: 90%; border: round $warning; background: $surface; padding: 1 2; }
    """

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        """The question in a frame."""
        yield Static(Text(f"{self._question}  y / n"))

    def action_answer(self, yes: bool) -> None:
        """Close with the answer."""
        self.dismiss(yes)
