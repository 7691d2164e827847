"""The walk of Transformers over a model's sub-models, done over the catalogue instead.

A reference for readers of `mappings/models.json`: which registered list applies at which path.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

Json = dict[str, Any]


class Node(NamedTuple):
    """A model of the tree: where it is, what it is, and its config."""

    path: str
    name: str
    model_type: str
    config: Json


def at(config: Json, place: str) -> Json:
    """What stands at a path of keys; empty if config.json leaves it out."""
    for key in place.split("."):
        config = config.get(key) or {}
    return config


def sub_node(catalogue: Json, parent: Node, sub: Json) -> Node:
    """A sub-model of a node."""
    config = at(parent.config, sub["config"]) if "config" in sub else parent.config
    given = config.get("model_type") if "config" in sub else parent.model_type
    if "config" not in sub and sub.get("model_type") != catalogue["classes"][parent.name].get(
        "model_type"
    ):
        given = sub.get("model_type", given)  # the parent makes a config of another type
    path = f"{parent.path}.{sub['path']}" if parent.path else sub["path"]
    if "class" in sub:
        own = catalogue["classes"][sub["class"]].get("model_type", "")
        implied = sub.get("model_type", own if "config" in sub else parent.model_type)
        model_type = (given or implied) if "config" in sub else implied
        return Node(path, sub["class"], model_type, config)
    table = catalogue["auto"][sub["auto"]]
    model_type = given if given in table else sub["model_type"]
    name = table[model_type]
    own = catalogue["classes"][name].get("model_type", "")
    if own != model_type and own == at(config, "text_config").get("model_type"):
        return Node(path, name, own, at(config, "text_config"))
    return Node(path, name, model_type, config)


def nodes(catalogue: Json, node: Node) -> Iterator[Node]:
    """A node and those below it, depth first, as `named_modules` has them."""
    yield node
    for sub in catalogue["classes"][node.name].get("submodels", []):
        yield from nodes(catalogue, sub_node(catalogue, node, sub))


def walk(
    catalogue: Json, registered: Collection[str], root: str, config: Json
) -> list[tuple[str, str]]:
    """Path and registry key of each list that applies, in order.

    Parameters
    ----------
    catalogue
        `mappings/models.json`.
    registered
        The keys of the registry.
    root
        Class of the model.
    config
        Its config.json.
    """
    seen: dict[str, list[str]] = defaultdict(list)
    found = []
    own = catalogue["classes"][root].get("model_type", "")
    for node in nodes(catalogue, Node("", root, config.get("model_type") or own, config)):

        def claimed(by: str, path: str = node.path) -> bool:
            return any(outer == "" or path.startswith(f"{outer}.") for outer in seen[by])

        if claimed(node.name):
            continue
        by_class = node.name in registered
        if not by_class and (node.model_type not in registered or claimed(node.model_type)):
            continue
        found.append((node.path, node.name if by_class else node.model_type))
        seen[node.name].append(node.path)
        if not by_class:
            seen[node.model_type].append(node.path)
    return found
