"""`scheduler.conf`: the text administrators write, read into a `Policy`.

A document is taken whole or refused whole; each fault says in which line it is, what is wrong and what to write. The
text is YAML: `actions`, `tiers` of plugins in the order in which they are asked, and rules of our own: `preempt`,
`startTimeout`, `planning`, `starvation`.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Final, cast

import yaml

from t9ksched.engine.plugins import HOOKS, Factory, GangOrder, NodeScore, PluginUse, QueueOrder
from t9ksched.engine.policy import (
    CARDLESS_WEIGHT,
    Binpack,
    Packing,
    PackingRule,
    Planning,
    PlanningMode,
    Policy,
    Preemption,
    Starvation,
    Strategy,
)
from t9ksched.model.duration import parse_duration
from t9ksched.model.errors import FieldError, Invalid, child
from t9ksched.model.queue_starvation import parse_share
from t9ksched.model.text import Limits, YamlFault, compose
from t9ksched.model.whole import whole_number

ACTIONS: Final = ("allocate", "preempt")
PLUGINS: Final = ("basic", "predicates", "affinity", "resource", "binpack", "cardless", "cards", "fragmentation")
MANDATORY: Final = ("basic", "predicates", "affinity")
QUEUE_ORDER: Final = ("basic", "resource")
_LONGEST: Final = timedelta(days=3650)
_MODES: Final = ("Conservative", "EASY")
_MOST_PLANS: Final = 10_000
_STRATEGIES: Final = ("MostAllocated", "LeastAllocated")
_CARDS: Final[Mapping[str, PackingRule | None]] = {
    "Usable": "usable",
    "FirstFit": None,
    "BestFit": "best-fit",
    "Spread": "spread",
}
_WEIGHT: Final = "resources."
_BOOLEAN: Final = "tag:yaml.org,2002:bool"
_MOST: Final = 10
_LIMITS: Final = Limits(depth=16, values=10_000, scalar=1000)
_MOST_TOGETHER: Final = 40
"""Of the weights of plugins that score nodes, besides affinity, binpack and cardless: scores stay inside 64 bits."""


def parse_conf(text: str, more_plugins: Mapping[str, Factory] | None = None) -> Policy:
    """The policy that a `scheduler.conf` describes. `more_plugins` makes installed plugins, by name.

    Raises:
        Invalid: every fault, its path beginning with `line N`.
    """
    try:
        root = compose(text, _LIMITS)
    except YamlFault as fault:
        raise Invalid.at(f"line {fault.line or 1}", f"is no YAML: {fault.problem}") from None
    if root is None:
        raise Invalid.at("line 1", "the document is empty: it needs actions and tiers")
    return _Reader(more_plugins or {}).policy(root)


class _Reader:
    """Walks the document and collects faults with their lines."""

    def __init__(self, more_plugins: Mapping[str, Factory]) -> None:
        self._factories = more_plugins
        self._plugins = (*PLUGINS, *more_plugins)
        self._faults: list[FieldError] = []

    def policy(self, root: yaml.Node) -> Policy:
        fields = dict(self._fields(root, "", ("actions", "tiers", "preempt", "startTimeout", "planning", "starvation")))
        actions = self._actions(fields.get("actions"), root)
        plugins = self._all_plugins(fields.get("tiers"), root)
        if "preempt" in actions and "resource" not in plugins:
            self._fail(fields.get("actions", root), "actions", "preempt needs the plugin resource: add it to a tier")
        weight, binpack, cardless, packing, models = 1, None, 0, None, 0
        for name, (node, path) in plugins.items():
            if name == "affinity":
                weight = self._weight(node, path, 1)
            elif name == "cardless":
                cardless = self._weight(node, path, CARDLESS_WEIGHT)
            elif name == "binpack":
                binpack = self._binpack(node, path)
            elif name == "cards":
                packing, models = self._cards(node, path)
            elif name == "fragmentation":
                packing = _packing("fragmentation", self._weight(node, path, 1))
            elif name in PLUGINS and node is not None:
                self._arguments(node, path, ())
        if "cards" in plugins and "fragmentation" in plugins:
            self._fail(fields.get("tiers", root), "tiers", "cards and fragmentation rank by the same cards: keep one")
        uses = self._uses(plugins, fields.get("tiers", root))
        together = sum(use.weight for use in uses.values() if isinstance(use.plugin, NodeScore))
        if together + models + (packing.weight if packing is not None else 0) > _MOST_TOGETHER:
            says = f"the weights of cards, fragmentation and installed plugins are more than {_MOST_TOGETHER} together"
            self._fail(fields.get("tiers", root), "tiers", says)
        preemption = self._preempt(fields.get("preempt"))
        timeout = fields.get("startTimeout")
        start = self._seconds(timeout, "startTimeout") if timeout is not None else Policy().start_timeout_seconds
        planning = self._planning(fields.get("planning"))
        starvation = self._starvation(fields.get("starvation"))
        if self._faults:
            raise Invalid(self._faults)
        queue_order = [name for name in plugins if name in QUEUE_ORDER or isinstance(_made(uses, name), QueueOrder)]
        gang_order = [name for name in plugins if name == "basic" or isinstance(_made(uses, name), GangOrder)]
        return Policy(
            actions,
            tuple(queue_order),
            weight,
            binpack,
            preemption,
            tuple(gang_order),
            tuple(uses.values()),
            cardless,
            start_timeout_seconds=start,
            planning=planning,
            starvation=starvation,
            packing=packing,
            model_weight=models,
        )

    def _uses(self, plugins: dict[str, tuple[yaml.Node | None, str]], tiers: yaml.Node) -> dict[str, PluginUse]:
        """Installed plugins, made from their arguments."""
        uses = {}
        for name, (node, path) in plugins.items():
            if name not in self._factories:
                continue
            arguments = self._arguments(node, path, None)
            weight = self._whole(arguments.pop("weight"), child(path, "weight"), _MOST) if "weight" in arguments else 1
            texts = {key: self._text(value, child(path, key)) for key, value in arguments.items()}
            try:
                plugin = self._factories[name](texts)
            except (Exception, SystemExit) as error:
                says = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
                self._fail(node or tiers, path, f"the plugin {name!r} cannot be made: {says}")
                continue
            if not isinstance(plugin, tuple(HOOKS.values())):
                self._fail(node or tiers, path, f"the plugin {name!r} has none of the methods {', '.join(HOOKS)}")
            uses[name] = PluginUse(name, plugin, weight, tuple(sorted(texts.items())))
        return uses

    def _fail(self, node: yaml.Node, path: str, message: str) -> None:
        line = f"line {node.start_mark.line + 1}"
        self._faults.append(FieldError(f"{line}, {path}" if path else line, message))

    def _fields(
        self, node: yaml.Node, path: str, known: Sequence[str] | None, is_known: Callable[[str], bool] | None = None
    ) -> Iterator[tuple[str, yaml.Node]]:
        """Keys and values of a mapping; unknown and repeated keys are faults."""
        if not isinstance(node, yaml.MappingNode):
            self._fail(node, path, "must be a mapping")
            return
        seen: set[str] = set()
        for key_node, value in node.value:
            key = str(key_node.value)
            if key in seen:
                self._fail(key_node, child(path, key), "is listed twice: keep one")
            elif known is not None and key not in known and not (is_known and is_known(key)):
                says = f"is unknown: use {', '.join(known)}" if known else "takes no arguments"
                self._fail(key_node, child(path, key), says)
            else:
                seen.add(key)
                yield key, value

    def _text(self, node: yaml.Node, path: str) -> str:
        if not isinstance(node, yaml.ScalarNode):
            self._fail(node, path, "must be a text")
            return ""
        return str(node.value)

    def _names(self, node: yaml.Node, path: str) -> list[str]:
        """Names separated by commas, or a list."""
        if isinstance(node, yaml.SequenceNode):
            return [self._text(one, f"{path}[{at}]").strip() for at, one in enumerate(node.value)]
        return [part.strip() for part in self._text(node, path).split(",") if part.strip()]

    def _whole(self, node: yaml.Node, path: str, most: int) -> int:
        text = self._text(node, path)
        number = whole_number(text)
        if number is None or number > most:
            self._fail(node, path, f"{text!r} is out of range: use a whole number from 0 to {most}")
            return 0
        return number

    def _flag(self, node: yaml.Node, path: str) -> bool:
        text = self._text(node, path)
        if text not in ("true", "false"):
            self._fail(node, path, f"{text!r} must be true or false")
        elif isinstance(node, yaml.ScalarNode) and node.tag != _BOOLEAN:
            self._fail(node, path, f"is the text {text!r}, not a flag: write {text} without quotes")
        return text == "true"

    def _seconds(self, node: yaml.Node, path: str) -> int:
        text = self._text(node, path)
        try:
            length = parse_duration("" if text == "0" else text)
        except ValueError as error:
            self._fail(node, path, str(error))
            return 0
        if length is not None and length > _LONGEST:
            self._fail(node, path, f"{text!r} is longer than ten years")
        # In whole seconds, as Kubernetes counts them: rounded up, because 0 means none.
        return math.ceil(length.total_seconds()) if length else 0

    def _actions(self, node: yaml.Node | None, root: yaml.Node) -> tuple[str, ...]:
        if node is None:
            self._fail(root, "actions", 'is required: write actions: "allocate" or "allocate,preempt"')
            return ()
        actions = self._names(node, "actions")
        for name in actions:
            if name not in ACTIONS:
                self._fail(node, "actions", f"{name!r} is unknown: use {' and '.join(ACTIONS)}")
        if "allocate" not in actions:
            self._fail(node, "actions", "allocate is mandatory: without it nothing is placed")
        return tuple(actions)

    def _all_plugins(self, node: yaml.Node | None, root: yaml.Node) -> dict[str, tuple[yaml.Node | None, str]]:
        """Arguments of each plugin with their path, in the order in which plugins are asked."""
        found: dict[str, tuple[yaml.Node | None, str]] = {}
        if not isinstance(node, yaml.SequenceNode):
            self._fail(node or root, "tiers", "is required: a list of tiers, each with a list of plugins")
            return found
        for at, tier in enumerate(node.value):
            for _, plugins in self._fields(tier, f"tiers[{at}]", ("plugins",)):
                path = f"tiers[{at}].plugins"
                if not isinstance(plugins, yaml.SequenceNode):
                    self._fail(plugins, path, "must be a list of plugins")
                    continue
                for nth, plugin in enumerate(plugins.value):
                    self._plugin(plugin, f"{path}[{nth}]", found)
        missing = [name for name in MANDATORY if name not in found]
        if missing:
            self._fail(node, "tiers", f"mandatory plugins are missing: add {', '.join(missing)}")
        return found

    def _plugin(self, node: yaml.Node, path: str, found: dict[str, tuple[yaml.Node | None, str]]) -> None:
        fields = dict(self._fields(node, path, ("name", "arguments")))
        if "name" not in fields:
            if isinstance(node, yaml.MappingNode):
                self._fail(node, child(path, "name"), "is required")
            return
        name = self._text(fields["name"], child(path, "name"))
        name = "binpack" if name == "binPack" else name
        if name not in self._plugins:
            self._fail(fields["name"], child(path, "name"), f"{name!r} is unknown: use {', '.join(self._plugins)}")
        elif name in found:
            self._fail(fields["name"], child(path, "name"), f"{name!r} is listed twice: keep one")
        else:
            found[name] = (fields.get("arguments"), child(path, "arguments"))

    def _arguments(
        self,
        node: yaml.Node | None,
        path: str,
        known: Sequence[str] | None,
        is_known: Callable[[str], bool] | None = None,
    ) -> dict[str, yaml.Node]:
        if node is None or (isinstance(node, yaml.ScalarNode) and not node.value):
            return {}
        return dict(self._fields(node, path, known, is_known))

    def _weight(self, node: yaml.Node | None, path: str, default: int) -> int:
        """The weight of a plugin that has no other argument."""
        arguments = self._arguments(node, path, ("weight",))
        return self._whole(arguments["weight"], child(path, "weight"), _MOST) if "weight" in arguments else default

    def _binpack(self, node: yaml.Node | None, path: str) -> Binpack:
        known = ("strategy", "weight", "resources", "resources.<name>")
        arguments = self._arguments(node, path, known, lambda key: key.startswith(_WEIGHT))
        strategy = "MostAllocated"
        if "strategy" in arguments:
            strategy = self._text(arguments["strategy"], child(path, "strategy"))
            if strategy not in _STRATEGIES:
                says = f"{strategy!r} is unknown: use {' or '.join(_STRATEGIES)}"
                self._fail(arguments["strategy"], child(path, "strategy"), says)
        weight = self._whole(arguments["weight"], child(path, "weight"), _MOST) if "weight" in arguments else 1
        listed = self._names(arguments["resources"], child(path, "resources")) if "resources" in arguments else []
        weights = dict.fromkeys(("cpu", "memory", *listed), 1)
        for key, value in arguments.items():
            if key.startswith(_WEIGHT):
                resource = key.removeprefix(_WEIGHT)
                if resource not in weights:
                    says = f"{resource!r} is not scored: add it to resources"
                    self._fail(value, f"{path}[{key}]", says)
                weights[resource] = self._whole(value, f"{path}[{key}]", _MOST)
        return Binpack(cast(Strategy, strategy), weight, tuple(weights.items()))

    def _cards(self, node: yaml.Node | None, path: str) -> tuple[Packing | None, int]:
        """How nodes are ranked by their cards, and the weight of models."""
        arguments = self._arguments(node, path, ("weight", "strategy", "models"))
        weights = {
            key: self._whole(arguments[key], child(path, key), _MOST) if key in arguments else 1
            for key in ("weight", "models")
        }
        strategy = "Usable"
        if "strategy" in arguments:
            strategy = self._text(arguments["strategy"], child(path, "strategy"))
            if strategy not in _CARDS:
                says = f"{strategy!r} is unknown: use {', '.join(_CARDS)}"
                self._fail(arguments["strategy"], child(path, "strategy"), says)
        return _packing(_CARDS.get(strategy), weights["weight"]), weights["models"]

    def _preempt(self, node: yaml.Node | None) -> Preemption:
        default = Preemption()
        if node is None:
            return default
        known = ("minimumRunTime", "mostEvictionsPerDay", "insideQueue", "surplusYields", "maxEvictionGrace")
        fields = dict(self._fields(node, "preempt", known))

        def read(key: str, how: Callable[[yaml.Node, str], int], otherwise: int) -> int:
            return how(fields[key], f"preempt.{key}") if key in fields else otherwise

        return Preemption(
            minimum_run_seconds=read("minimumRunTime", self._seconds, 0),
            most_evictions_a_day=read("mostEvictionsPerDay", lambda n, path: self._whole(n, path, 1000), 0),
            inside_queue=bool(read("insideQueue", self._flag, default.inside_queue)),
            surplus_yields=bool(read("surplusYields", self._flag, default.surplus_yields)),
            max_grace_seconds=read("maxEvictionGrace", self._seconds, default.max_grace_seconds),
        )

    def _planning(self, node: yaml.Node | None) -> Planning | None:
        """How starts are planned; None where the document does not ask for it."""
        if node is None:
            return None
        default = Planning()
        known = ("enabled", "mode", "gangs", "perQueue", "perUser", "horizon", "resolution")
        fields = dict(self._fields(node, "planning", known))
        mode = self._text(fields["mode"], "planning.mode") if "mode" in fields else default.mode
        if mode not in _MODES:
            self._fail(fields["mode"], "planning.mode", f"{mode!r} is unknown: use {' or '.join(_MODES)}")

        def count(key: str, otherwise: int) -> int:
            return self._counted(fields[key], f"planning.{key}", _MOST_PLANS) if key in fields else otherwise

        def length(key: str, otherwise: int) -> int:
            return self._some_seconds(fields[key], f"planning.{key}") if key in fields else otherwise

        planning = Planning(
            mode=cast(PlanningMode, mode),
            gangs=count("gangs", default.gangs),
            per_queue=count("perQueue", default.per_queue),
            per_user=count("perUser", default.per_user),
            horizon_seconds=length("horizon", default.horizon_seconds),
            resolution_seconds=length("resolution", default.resolution_seconds),
        )
        if "resolution" in fields and planning.resolution_seconds > planning.horizon_seconds:
            self._fail(fields["resolution"], "planning.resolution", "is longer than the horizon")
        enabled = self._flag(fields["enabled"], "planning.enabled") if "enabled" in fields else True
        return planning if enabled else None

    def _starvation(self, node: yaml.Node | None) -> Starvation | None:
        """When gangs collect room; a time of 0 means never."""
        default = Starvation()
        if node is None:
            return default
        fields = dict(self._fields(node, "starvation", ("after", "maxHeldShare")))
        after, share = default.after_seconds, default.most_held_percent
        if "after" in fields:
            after = self._seconds(fields["after"], "starvation.after")
        if "maxHeldShare" in fields:
            text = self._text(fields["maxHeldShare"], "starvation.maxHeldShare")
            try:
                share = parse_share(text)
            except ValueError as error:
                self._fail(fields["maxHeldShare"], "starvation.maxHeldShare", str(error))
        return Starvation(after, share) if after else None

    def _counted(self, node: yaml.Node, path: str, most: int) -> int:
        """A whole number from 1."""
        number = self._whole(node, path, most)
        if not number and whole_number(self._text(node, path)) == 0:
            self._fail(node, path, f"0 is out of range: use a whole number from 1 to {most}")
        return number

    def _some_seconds(self, node: yaml.Node, path: str) -> int:
        """A duration that is not 0, in seconds."""
        before = len(self._faults)
        seconds = self._seconds(node, path)
        if not seconds and len(self._faults) == before:
            self._fail(node, path, "must be longer than 0")
        return seconds


def _packing(rule: PackingRule | None, weight: int) -> Packing | None:
    return Packing(rule, weight=weight) if rule is not None and weight else None


def _made(uses: Mapping[str, PluginUse], name: str) -> object:
    return uses[name].plugin if name in uses else None
