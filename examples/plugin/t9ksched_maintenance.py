"""A plugin for t9ksched: nodes that are due for maintenance are used last, or not at all.

In `scheduler.conf`:

    - name: maintenance
      arguments: {label: maintenance, strict: false, weight: 5}
"""

from collections.abc import Mapping

from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import PodClass


class Maintenance:
    """Speaks of nodes that carry the label `label`, whatever its value; with `strict` they take nothing new."""

    def __init__(self, arguments: Mapping[str, str]) -> None:
        unknown = set(arguments) - {"label", "strict"}
        if unknown:
            raise ValueError(f"{', '.join(sorted(unknown))}: use label and strict")
        if arguments.get("strict", "false") not in ("true", "false"):
            raise ValueError(f"strict: {arguments['strict']!r} must be true or false")
        self._label = arguments.get("label", "maintenance")
        self._strict = arguments.get("strict") == "true"

    def allows(self, pod: PodClass, node: NodeFacts) -> bool:
        """Whether pods of this class may run on the node."""
        return not (self._strict and self._label in node.labels)

    def score(self, pod: PodClass, node: NodeFacts) -> int:
        """From 0 to 100, the larger the better."""
        return 0 if self._label in node.labels else 100
