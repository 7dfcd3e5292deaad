"""YAML as nodes that know their lines, for documents whose faults are reported by line."""

import yaml

from t9ksched.model.text.limits import DEFAULT, Limits
from t9ksched.model.text.reader import LOADER, read


def compose(text: str, limits: Limits = DEFAULT) -> yaml.Node | None:
    """The nodes of a text's only document; None when it is empty. Keys that are there twice are left to the caller.

    Raises:
        YamlFault: as `read`.
    """
    read(text, limits, repeated=True)  # what passes is neither deep nor large, also with its aliases counted out
    node: yaml.Node | None = yaml.compose(text, Loader=LOADER)
    return node
