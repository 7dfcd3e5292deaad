"""The policy that runs now, and where it comes from: ConfigMap `scheduler-config`, key `scheduler.conf`.

Changes apply while the scheduler runs. A document that cannot be read is refused with line and reason; the last good
one stays in force, and an event, the log and a metric say so. Without the ConfigMap the policy of the start holds.
"""

from collections.abc import Callable
from typing import Any, Final

import structlog

from t9ksched.engine.conf import parse_conf
from t9ksched.engine.policy import Policy
from t9ksched.model.errors import Invalid
from t9ksched.scheduler.notices import Notices

log = structlog.get_logger(__name__)

CONFIG_MAP: Final = "scheduler-config"
KEY: Final = "scheduler.conf"
NAMED: Final = f"metadata.name={CONFIG_MAP}"
EVENT_APPLIED: Final = "ConfigurationApplied"
EVENT_REFUSED: Final = "ConfigurationRefused"


class Configuration:
    """Follows the ConfigMap; `apply` is told each policy that comes into force. `refused` is what is wrong now."""

    def __init__(self, start: Policy, notices: Notices, apply: Callable[[Policy], None]) -> None:
        self.policy = start
        self.refused = ""
        self._start = start
        self._notices = notices
        self._apply = apply
        self._version = ""

    def upsert(self, item: dict[str, Any]) -> None:
        """The ConfigMap appeared or changed; others in its namespace are not ours."""
        meta = item.get("metadata") or {}
        if meta.get("name") != CONFIG_MAP or meta.get("resourceVersion") == self._version:
            return
        self._version = str(meta.get("resourceVersion", ""))
        text = (item.get("data") or {}).get(KEY)
        about = {"apiVersion": "v1", "kind": "ConfigMap"} | item
        if text is None:
            self._refuse(about, f"the key {KEY!r} is missing")
            return
        try:
            policy = parse_conf(text)
        except Invalid as error:
            self._refuse(about, str(error))
            return
        first = not self.refused and policy == self.policy
        self._take(policy)
        if not first:
            actions = ", ".join(policy.actions)
            self._notices.event(about, EVENT_APPLIED, f"the configuration is in force: actions {actions}")

    def remove(self, item: dict[str, Any]) -> None:
        """The ConfigMap is gone: the policy of the start holds again."""
        if (item.get("metadata") or {}).get("name") == CONFIG_MAP:
            self._version = ""
            self._take(self._start)

    def _take(self, policy: Policy) -> None:
        self.refused = ""
        if policy != self.policy:
            self.policy = policy
            log.info("configuration in force", actions=policy.actions, queue_order=policy.queue_order)
            self._apply(policy)

    def _refuse(self, about: dict[str, Any], why: str) -> None:
        self.refused = why
        log.error("configuration refused, the last good one stays", error=why)
        self._notices.event(about, EVENT_REFUSED, f"refused, the last good one stays in force: {why}", warning=True)
