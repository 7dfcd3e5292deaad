"""The policy that runs now, and where it comes from: a file, or ConfigMap `scheduler-config`, key `scheduler.conf`.

Changes apply while the scheduler runs. A document that cannot be read is refused with line and reason; the last good
one stays in force, and an event, the log and a metric say so. Without either the policy of the start holds.
"""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import structlog

from t9ksched.engine.plugins import Factory
from t9ksched.engine.policy import Policy
from t9ksched.engine.scheduler_conf import parse_conf
from t9ksched.model.errors import FieldError, Invalid
from t9ksched.model.names import SYSTEM_NAMESPACE
from t9ksched.regular_file import read_file
from t9ksched.scheduler.report.event_writer import EventWriter

log = structlog.get_logger(__name__)

CONFIG_MAP: Final = "scheduler-config"
KEY: Final = "scheduler.conf"
NAMED: Final = f"metadata.name={CONFIG_MAP}"
EVENT_APPLIED: Final = "ConfigurationApplied"
EVENT_REFUSED: Final = "ConfigurationRefused"
POLL_SECONDS: Final = 1.0
_LARGEST: Final = 1 << 20
"""Bytes of a file that may be a `scheduler.conf`, as a ConfigMap could hold them."""


class Configuration:
    """The policy in force; `apply` is told each one that comes into force. `refused` is what is wrong now.

    `plugins` makes installed plugins, by name.
    """

    def __init__(
        self,
        start: Policy,
        events: EventWriter,
        apply: Callable[[Policy], None],
        plugins: Mapping[str, Factory] | None = None,
    ) -> None:
        self.policy = start
        self.refused = ""
        self._start = start
        self._events = events
        self._apply = apply
        self._plugins = plugins
        self._version = ""
        self._good = False
        """Whether any document could be used since the start."""
        self._about: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": CONFIG_MAP, "namespace": SYSTEM_NAMESPACE},
        }

    def about(self) -> dict[str, Any]:
        """The object that events about the configuration are about: the ConfigMap, whether it exists or not."""
        return self._about

    def upsert(self, item: dict[str, Any]) -> None:
        """The ConfigMap appeared or changed; others in its namespace are not ours."""
        meta = item.get("metadata") or {}
        if meta.get("name") != CONFIG_MAP or meta.get("resourceVersion") == self._version:
            return
        self._version = str(meta.get("resourceVersion", ""))
        self._about = {"apiVersion": "v1", "kind": "ConfigMap"} | item
        text = (item.get("data") or {}).get(KEY)
        if text is None:
            self.refuse(f"the key {KEY!r} is missing")
        else:
            self.take(text)

    def remove(self, item: dict[str, Any]) -> None:
        """The ConfigMap is gone: the policy of the start holds again."""
        if (item.get("metadata") or {}).get("name") == CONFIG_MAP:
            self._version = ""
            self._put(self._start)

    def take(self, text: str, source: str = "") -> None:
        """Another document; `source` names the file it came from."""
        try:
            policy = parse_conf(text, self._plugins)
        except Invalid as error:
            self.refuse(str(error), source)
            return
        same = not self.refused and policy == self.policy
        self._put(policy)
        if not same:
            actions = ", ".join(policy.actions)
            where = f"{source}: " if source else ""
            self._events.event(self._about, EVENT_APPLIED, f"{where}the configuration is in force: actions {actions}")

    def begin(self, policy: Policy) -> None:
        """The policy of the start was read from a file."""
        self._start = policy
        self._put(policy)

    def refuse(self, why: str, source: str = "") -> None:
        """The document cannot be used: the last good one stays, at the start the defaults."""
        why = f"{source}: {why}" if source else why
        if why == self.refused:
            return
        self.refused = why
        kept = "the last good one stays in force" if self._good else "the defaults are in force"
        log.error(f"configuration refused, {kept}", error=why)
        self._events.event(self._about, EVENT_REFUSED, f"refused, {kept}: {why}", warning=True)

    def _put(self, policy: Policy) -> None:
        self.refused, self._good = "", True
        if policy != self.policy:
            self.policy = policy
            log.info("configuration in force", actions=policy.actions, queue_order=policy.queue_order)
            self._apply(policy)


class ConfigurationFile:
    """Follows a file: it is looked at once a second, and read when it was written or replaced."""

    def __init__(
        self, path: Path, configuration: Configuration, plugins: Mapping[str, Factory], poll: float = POLL_SECONDS
    ) -> None:
        self._path = path
        self._configuration = configuration
        self._plugins = plugins
        self._poll = poll
        self._seen: tuple[int, ...] = ()

    async def begin(self) -> None:
        """Read it for the first time.

        Raises:
            Invalid: it cannot be read, or is no `scheduler.conf`; each fault names the file and the line.
        """
        self._seen, text = await asyncio.to_thread(self._read)
        try:
            self._configuration.begin(parse_conf(text, self._plugins))
        except Invalid as error:
            raise Invalid(FieldError(f"{self._path}, {one.path}", one.message) for one in error.errors) from None

    async def run(self) -> None:
        """Apply each change of the file, until cancelled."""
        while True:
            await asyncio.sleep(self._poll)
            try:
                if await asyncio.to_thread(self._stamp) == self._seen:
                    continue
                self._seen, text = await asyncio.to_thread(self._read)
            except Invalid as error:
                self._seen = ()
                self._configuration.refuse(str(error))
                continue
            self._configuration.take(text, str(self._path))

    def _stamp(self) -> tuple[int, ...]:
        """What changes when the file is written, or another takes its name."""
        try:
            stat = self._path.stat()
        except OSError as error:
            raise Invalid.at(str(self._path), f"cannot be read: {error.strerror}") from None
        return stat.st_mtime_ns, stat.st_size, stat.st_ino

    def _read(self) -> tuple[tuple[int, ...], str]:
        try:
            stamp = self._stamp()
            return stamp, read_file(self._path, _LARGEST).decode()
        except OSError as error:
            raise Invalid.at(str(self._path), f"cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise Invalid.at(str(self._path), "is no UTF-8 text") from None
