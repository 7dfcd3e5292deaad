"""What `doctor` reports about the cluster's `scheduler.conf`: whether it is in force, and which plugins it leaves
out.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from t9ksched.engine.scheduler_conf import parse_conf
from t9ksched.kube.errors import ApiError, NotFound
from t9ksched.kube.resources import CONFIGMAPS
from t9ksched.kube.setup.findings import Finding, Level
from t9ksched.model.errors import Invalid
from t9ksched.model.names import SYSTEM_NAMESPACE
from t9ksched.scheduler.decide.configuration import CONFIG_MAP, KEY

if TYPE_CHECKING:
    from t9ksched.engine.plugins import Factory
    from t9ksched.kube.transport.client import Client

_CHECK: Final = "policy"
_WITHOUT: Final = {
    "resource": "queues of one priority do not take turns by their shares, and preempt cannot be used",
    "binpack": "pods go to the first node by name, so that few nodes stay whole for large jobs",
    "cardless": "pods without GPUs fill nodes with GPUs while others are empty",
}
"""By plugin, what happens without it."""


async def examine_policy(client: "Client", plugins: "Mapping[str, Factory]") -> list[Finding]:
    """The findings about ConfigMap `scheduler-config`; `plugins` are those installed here."""
    try:
        found: dict[str, Any] | None = await client.get(CONFIGMAPS, CONFIG_MAP, SYSTEM_NAMESPACE)
    except NotFound:
        found = None
    except ApiError as error:
        remedy = "repeat it as an administrator of the cluster"
        message = f"could not be looked at: {error.message or error}"
        return [Finding("rights", Level.WARNING, CONFIGMAPS.plural, message, remedy)]
    return judge_policy(found, plugins)


def judge_policy(config: dict[str, Any] | None, plugins: "Mapping[str, Factory]") -> list[Finding]:
    """Of a ConfigMap as the server has it, None when there is none."""
    where = f"{SYSTEM_NAMESPACE}/{CONFIG_MAP}"
    if config is None:
        return [Finding(_CHECK, Level.OK, where, "does not exist: the defaults are in force, without preemption")]
    text = (config.get("data") or {}).get(KEY)
    if text is None:
        message = f"the key {KEY!r} is missing: the defaults are in force"
        return [
            Finding(_CHECK, Level.WARNING, where, message, f"write the policy under {KEY}, or delete the ConfigMap")
        ]
    try:
        policy = parse_conf(text, plugins)
    except Invalid as error:
        message = f"is refused, an earlier one or the defaults are in force: {error}"
        return [Finding(_CHECK, Level.WARNING, where, message, "correct it; the message names the line")]
    listed = {
        "resource": "resource" in policy.queue_order,
        "binpack": policy.binpack is not None or policy.packing is not None,
        "cardless": policy.cardless_weight > 0,
    }
    found = [
        Finding(_CHECK, Level.NOTE, where, f"does not list {name}: {_WITHOUT[name]}", f"add - name: {name} to a tier")
        for name, there in listed.items()
        if not there
    ]
    return found or [Finding(_CHECK, Level.OK, where, f"is in force: actions {', '.join(policy.actions)}")]
