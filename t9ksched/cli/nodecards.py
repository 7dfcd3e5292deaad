"""How many cards the nodes of a file have, for `simulate replay --cluster FILE`.

The file is one of nodes, as `t9ksched up --nodes FILE` takes it, or what `kubectl get nodes -o json` prints. What else
it says of nodes (labels, taints, cpu) is not simulated.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from t9ksched.devcluster.nodes.nodefile import nodes_from
from t9ksched.model.errors import Invalid
from t9ksched.model.node import decode_node, node_facts
from t9ksched.model.resources import is_card_resource
from t9ksched.model.text import YamlFault, read


def cards_of_nodes(text: str) -> list[int]:
    """Cards a node, in the order of the file.

    Raises:
        Invalid: it is no such file, or its nodes have cards of more than one resource.
    """
    try:
        document = read(text)
    except YamlFault as fault:
        raise Invalid.at(fault.path, f"not YAML: {fault}") from None
    if not isinstance(document, Mapping):
        raise Invalid.at("", "it must be a mapping with a list under 'nodes:', or a list of Kubernetes nodes")
    listed = document.get("items")
    if isinstance(listed, list):
        found = [_allocatable(item, f"items[{at}]") for at, item in enumerate(listed)]
    else:
        found = [_allocatable(item, "nodes") for item in nodes_from(document)]
    resources = sorted({name for cards in found for name in cards})
    if len(resources) > 1:
        raise Invalid.at("nodes", f"they have cards of several resources, {', '.join(resources)}: one is simulated")
    return [sum(cards.values()) for cards in found]


def _allocatable(item: Any, path: str) -> dict[str, int]:
    """Its cards by resource."""
    if not isinstance(item, Mapping) or not isinstance(item.get("metadata"), Mapping):
        raise Invalid.at(path, "it is no node")
    try:
        facts = node_facts(decode_node(item))
    except msgspec.ValidationError as error:
        raise Invalid.at(path, f"it is no node: {error}") from error
    return {name: count for name, count in facts.allocatable.items() if count and is_card_resource(name)}
