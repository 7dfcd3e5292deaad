"""`top` on a terminal: a thread reads the service whenever something changed, and the view is drawn anew."""

import io
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, Final

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.widgets import DataTable, Footer, Static

from t9ksched.cli.cards import Palette
from t9ksched.cli.client import Client
from t9ksched.cli.commands.explain import show
from t9ksched.cli.failure import Failure
from t9ksched.cli.joblist import Job
from t9ksched.cli.kinds import Target
from t9ksched.cli.logfollowing import SeveralLogs
from t9ksched.cli.messages import translated, word
from t9ksched.cli.output import console_of
from t9ksched.cli.top.screens import AskScreen, LogScreen, TextScreen
from t9ksched.cli.top.view import JOB_COLUMNS, Asked, View, cells, node_lines, queue_lines, read, summary
from t9ksched.client.errors import ClientError
from t9ksched.client.logs import LogWish

_TAIL: Final = 200
_SETTLE_SECONDS: Final = 0.5


class Top(App[None]):
    """Nodes, queues and jobs. Keys act on the job under the cursor."""

    TITLE = "t9ksched top"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar = [
        Binding("e", "explain", word("Explain")),
        Binding("l", "logs", word("Logs")),
        Binding("c", "cancel", word("Cancel")),
        Binding("m", "mine", word("Mine/all")),
        Binding("f", "ended", word("Ended too")),
        Binding("q", "quit", word("Quit")),
        Binding("ctrl+c", "quit", word("Quit"), show=False, priority=True),
    ]
    CSS = """
    #summary { height: auto; padding: 0 1; }
    #nodes { height: auto; max-height: 40%; border: round $primary; }
    #queues { height: auto; max-height: 20%; border: round $primary; }
    #jobs { height: 1fr; border: round $primary; }
    """

    def __init__(self, client: Client, asked: Asked, user: str = "") -> None:
        super().__init__()
        self._client = client
        self._asked = asked
        self._user = user
        self._palette = Palette("NO_COLOR" not in os.environ)
        self._shown = View()
        self._wake = threading.Event()
        self._over = threading.Event()

    def compose(self) -> ComposeResult:
        """From above: numbers, nodes, queues, jobs, keys."""
        yield Static(id="summary")
        for name, title in (("nodes", word("Nodes")), ("queues", word("Queues"))):
            frame = VerticalScroll(Static(id=f"{name}-lines"), id=name, can_focus=False)
            frame.border_title = title
            yield frame
        table: DataTable[Text] = DataTable(id="jobs", cursor_type="row", zebra_stripes=True)
        table.border_title = word("Jobs")
        yield table
        yield Footer()

    def on_mount(self) -> None:
        """Begin to read."""
        self._table().add_columns(*map(word, JOB_COLUMNS))
        self._table().focus()
        threading.Thread(target=self._read, daemon=True, name="view").start()
        threading.Thread(target=self._listen, daemon=True, name="changes").start()

    def on_unmount(self) -> None:
        """Read no more."""
        self._over.set()
        self._wake.set()

    def on_data_table_row_selected(self) -> None:
        """Enter on a job explains it."""
        self.action_explain()

    def _listen(self) -> None:
        changes = self._client.changes()
        while not self._over.is_set():
            changes.wait()
            self._wake.set()

    def _read(self) -> None:
        while not self._over.is_set():
            try:
                view = read(self._client, self._asked)
            except Failure as failure:
                view = replace(self._shown, fault=failure.message)
            try:
                self.call_from_thread(self._draw, view)
            except RuntimeError:  # the program ends
                return
            self._over.wait(_SETTLE_SECONDS)
            self._wake.wait()
            self._wake.clear()

    def _draw(self, view: View) -> None:
        if self._over.is_set():
            return
        self._shown = view
        base = self.screen_stack[0]
        base.query_one("#summary", Static).update(summary(view))
        base.query_one("#nodes-lines", Static).update(node_lines(view, self._palette))
        base.query_one("#queues-lines", Static).update(queue_lines(view))
        table = self._table()
        chosen = self._chosen_key()
        table.clear()
        for job in view.jobs:
            table.add_row(*cells(job), key=str(job["uid"]))
        if chosen is not None and chosen in [str(job["uid"]) for job in view.jobs]:
            table.move_cursor(row=table.get_row_index(chosen), animate=False)

    def _table(self) -> "DataTable[Text]":
        return self.screen_stack[0].query_one("#jobs", DataTable)

    def _chosen_key(self) -> str | None:
        table = self._table()
        if not table.is_valid_row_index(table.cursor_row):
            return None
        return table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value

    def _chosen(self) -> Target | None:
        """The job under the cursor; None, with a bell, where there is none or a window is open."""
        key = self._chosen_key()
        found: Job | None = next((job for job in self._shown.jobs if str(job["uid"]) == key), None)
        if found is None or len(self.screen_stack) > 1:
            self.bell()
            return None
        return Target(str(found["namespace"]), str(found["kind"]), str(found["name"]))

    def _aside(self, act: Callable[[], None]) -> None:
        """Ask the service in a thread, so that keys are answered meanwhile; what it refuses is told."""

        def run() -> None:
            try:
                act()
            except Failure as failure:
                text = " ".join(map(translated, [failure.message, *failure.details, failure.remedy]))
                self.call_from_thread(self.notify, text, severity="error", markup=False)

        threading.Thread(target=run, daemon=True, name="act").start()

    def action_explain(self) -> None:
        """Say why the job is where it is."""
        if (target := self._chosen()) is None:
            return

        def explain() -> None:
            answer = self._client.get(f"{target.path}/explanation")
            out = console_of(file=io.StringIO(), width=max(40, int(self.size.width * 0.85)), record=True)
            show(answer, out)
            text = Text.from_ansi(out.export_text(styles=True))
            self.call_from_thread(self.push_screen, TextScreen(str(target), text))

        self._aside(explain)

    def action_logs(self) -> None:
        """Follow what the job's pods write."""
        if (target := self._chosen()) is None:
            return

        def follow(take: Callable[[str], bool]) -> None:
            wish = LogWish(container=None, tail=_TAIL, since=None, previous=False)
            try:
                several = SeveralLogs(self._client.transport, target, wish, None, lambda *_: None)
                for line in several.lines():
                    if not take(f"[{line.rank}] {line.text}"):
                        return
                take(f"– {translated('the job is over')} –")
            except (Failure, ClientError) as error:
                take(f"– {error} –")

        self.push_screen(LogScreen(f"{target}: {word('logs')}", follow))

    def action_cancel(self) -> None:
        """Delete the job, after asking."""
        if (target := self._chosen()) is None:
            return

        def answered(yes: bool | None) -> None:
            if yes:
                self._aside(cancel)

        def cancel() -> None:
            self._client.delete(target.path)
            self.call_from_thread(self.notify, translated(f"{target} is being deleted"))
            self._wake.set()

        self.push_screen(
            AskScreen(translated(f"Delete {target} in namespace {target.namespace}, with everything it owns?")),
            answered,
        )

    def action_mine(self) -> None:
        """Show one's own jobs alone, or all."""
        mine = self._asked.filters.get("user") != self._user
        self._asked = replace(self._asked, filters={**self._asked.filters, "user": self._user if mine else None})
        self._wake.set()

    def action_ended(self) -> None:
        """Show jobs that have ended, too, or not."""
        self._asked = replace(self._asked, ended=not self._asked.ended)
        self._wake.set()
