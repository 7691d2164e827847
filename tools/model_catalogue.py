"""What Weightloom has to know of the model classes of Transformers, read off models on meta.

For each class: the sub-models that it holds, where their configs stand, which weights are tied,
what a cast leaves alone, what a report leaves out, the names of its tensors, and which of them are
buffers.
`mappings/models.json` is made of this by export_transformers.py; docs/mappings.md describes it.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterator
from typing import Any

import tiny_configs
import transformers
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.models.auto import modeling_auto

FORMAT = "weightloom.models/1"
# Key of an entry → attribute of the class.
LISTS = {
    "keep_in_fp32": "_keep_in_fp32_modules",
    "keep_in_fp32_strict": "_keep_in_fp32_modules_strict",
    "ignore_on_load_missing": "_keys_to_ignore_on_load_missing",
    "ignore_on_load_unexpected": "_keys_to_ignore_on_load_unexpected",
    "ignore_on_save": "_keys_to_ignore_on_save",
}
# Lists of names that grow with every model that a class is seen in.
NAMES = ("names", "buffers")
# Marks that are left on configs and modules while models are built.
PLACE = "_catalogue_place"
AUTO = "_catalogue_auto"
OWN = "_catalogue_own"
# Switches of a config that add names, or take some away.
OPTIONAL = re.compile("bias|norm|pool|mask_token|learned|proj|conv|tie_word")


def mark_configs(config: PreTrainedConfig, place: str = "") -> None:
    """Leaves on each config the path of attributes that leads to it; copies keep the mark."""
    fields = vars(config)
    fields[PLACE] = place
    declared = [name for name in getattr(config, "sub_configs", None) or {} if name in fields]
    for name in [*declared, *list(fields)]:
        sub = fields[name]
        if isinstance(sub, PreTrainedConfig) and PLACE not in vars(sub):
            mark_configs(sub, f"{place}.{name}" if place else name)


def place_of(config: PreTrainedConfig) -> str | None:
    """The path that `mark_configs` left; None on a config that a model made for itself."""
    return vars(config).get(PLACE)


@contextlib.contextmanager
def recording() -> Iterator[None]:
    """While models are built: notes which auto class made one, and what each has of its own."""
    autos = [each for each in vars(modeling_auto).values() if is_auto_class(each)]
    before = [(each, vars(each).get("from_config")) for each in autos]
    post_init = PreTrainedModel.post_init
    for each in autos:
        each.from_config = noting_auto(each.from_config.__func__)
    PreTrainedModel.post_init = noting_own(post_init)
    try:
        yield
    finally:
        PreTrainedModel.post_init = post_init
        for each, original in before:
            if original is None:
                del each.from_config
            else:
                each.from_config = original


def is_auto_class(thing: Any) -> bool:
    """True for AutoModel and its like."""
    return isinstance(thing, type) and getattr(thing, "_model_mapping", None) is not None


def noting_auto(original: Any) -> Any:
    """`from_config` that notes on the model by which class and of which config it was made."""

    def from_config(cls: type, config: PreTrainedConfig, **kwargs: Any) -> PreTrainedModel:
        model = original(cls, config, **kwargs)
        setattr(model, AUTO, (cls.__name__, place_of(config), config.model_type))
        return model

    return classmethod(from_config)


def noting_own(original: Any) -> Any:
    """`post_init` that notes what the model says of itself, before its sub-models' is added."""

    def post_init(self: PreTrainedModel) -> None:
        if OWN not in vars(self):
            own = {key: sorted(getattr(self, name) or []) for key, name in LISTS.items()}
            setattr(self, OWN, own)
        original(self)

    return post_init


def starred(name: str) -> str:
    """The name with `*` for each component that is a number."""
    return ".".join("*" if part.isdigit() else part for part in name.split("."))


def nearest_submodels(model: PreTrainedModel) -> list[tuple[str, PreTrainedModel]]:
    """Path and model of each sub-model that no other sub-model holds, in the order of the walk."""
    found: list[tuple[str, PreTrainedModel]] = []
    for path, module in model.named_modules():
        if not path or not isinstance(module, PreTrainedModel):
            continue
        if not any(path.startswith(f"{outer}.") for outer, _ in found):
            found.append((path, module))
    return found


def relative_place(place: str | None, parent: str) -> str:
    """Path of attributes from the parent's config to the sub-model's; "" for the parent's own."""
    if place is None or place == parent:
        return ""
    if not parent:
        return place
    if place.startswith(f"{parent}."):
        return place[len(parent) + 1 :]
    return ""


def describe_submodel(path: str, sub: PreTrainedModel, parent: PreTrainedModel) -> dict[str, str]:
    """The entry of one sub-model.

    A config that a model made for itself may be of another class than its model_type says: the
    model's class is then fixed, as far as config.json is concerned.
    """
    auto, place, model_type = getattr(sub, AUTO, ("", None, ""))
    entry = {"path": starred(path)}
    if auto and auto_table(auto).get(model_type) != type(sub).__name__:
        auto = ""
    if auto:
        entry["auto"] = auto
        implied = ""
    else:
        entry["class"] = type(sub).__name__
        place, model_type = place_of(sub.config), sub.config.model_type
        implied = type(sub).config_class.model_type
    if config := relative_place(place, place_of(parent.config) or ""):
        entry["config"] = config
    elif not auto:
        implied = parent.config.model_type
    if model_type != implied:
        entry["model_type"] = model_type
    return entry


def submodels_of(model: PreTrainedModel) -> list[dict[str, str]]:
    """Entries of the nearest sub-models; those of a list that are alike stand there once."""
    entries: list[dict[str, str]] = []
    for path, sub in nearest_submodels(model):
        entry = describe_submodel(path, sub, model)
        if entry not in entries:
            entries.append(entry)
    return entries


def own_names(model: PreTrainedModel) -> dict[str, list[str]]:
    """Templates of the names in its state_dict that are not a sub-model's, and of its buffers."""
    inner = tuple(f"{path}." for path, _ in nearest_submodels(model))
    names = {name for name in model.state_dict() if not name.startswith(inner)}
    parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    return {
        "names": sorted({starred(name) for name in names}),
        "buffers": sorted({starred(name) for name in names - parameters}),
    }


def facts_of_class(model_class: type[PreTrainedModel]) -> dict[str, Any]:
    """What the class says without being built."""
    lists = {key: sorted(getattr(model_class, name, None) or []) for key, name in LISTS.items()}
    return {
        "model_type": model_class.config_class.model_type,
        "base_model_prefix": model_class.base_model_prefix,
        "tied": tied_of(model_class),
        "tie_word_embeddings": ties_by_default(model_class, tied_of(model_class)),
        **lists,
    }


def tied_of(model: Any) -> dict[str, str]:
    """Its tied weights, as patterns."""
    tied = model._tied_weights_keys
    return dict(tied) if isinstance(tied, dict) else {}


def ties_by_default(model_class: type[PreTrainedModel], tied: dict[str, str]) -> bool | None:
    """Whether a config that does not say so ties; None for a class that has nothing to tie."""
    if not tied:
        return None
    try:
        return bool(getattr(model_class.config_class(), "tie_word_embeddings", False))
    except Exception:  # a config that has no default, or checks its fields against one another
        return bool(getattr(model_class.config_class, "tie_word_embeddings", False))


def without_empty(entry: dict[str, Any]) -> dict[str, Any]:
    """The entry without empty lists and texts."""
    return {key: value for key, value in entry.items() if value or value is False}


def describe(model: PreTrainedModel) -> dict[str, Any]:
    """The entry of a class, of a model built under `recording`."""
    facts = facts_of_class(type(model))
    tied = tied_of(model)
    ties = ties_by_default(type(model), tied)
    facts |= vars(model).get(OWN, {}) | {"tied": tied, "tie_word_embeddings": ties}
    prefix = {key: facts.pop(key) for key in ("model_type", "base_model_prefix")}
    return without_empty({**prefix, "submodels": submodels_of(model), **facts, **own_names(model)})


def entries_of(class_name: str) -> dict[str, dict[str, Any]]:
    """The entry of a class, and those of the classes of its sub-models as they are there.

    An entry that no small config builds says `"tree": false`, and `"lacks": PACKAGE` if that is
    why.
    """
    model_class = tiny_configs.class_named(class_name)
    found: dict[str, dict[str, Any]] = {}
    with recording():
        try:
            model = tiny_configs.build_on_meta(model_class, prepare=mark_configs)
        except tiny_configs.NotBuilt as failure:
            unknown = {**facts_of_class(model_class), "tree": False, "lacks": failure.package}
            return {class_name: without_empty(unknown)}
        for built in [model, *variants(model)]:
            for module in built.modules():
                if isinstance(module, PreTrainedModel):
                    add(found, type(module).__name__, describe(module))
    return found


def variants(model: PreTrainedModel) -> list[PreTrainedModel]:
    """The same class with what is optional turned round, so that its names are there too."""
    values = model.config.to_dict()
    values.pop(PLACE, None)
    turned = turned_round(values)
    if turned == values:
        return []
    try:
        config = type(model.config).from_dict(turned)
        mark_configs(config)
        return [tiny_configs.on_meta(type(model), config)]
    except Exception:  # not every choice goes with every other
        return []


def turned_round(values: dict[str, Any]) -> dict[str, Any]:
    """A config's dict with its biases, norms and poolers switched, in sub-configs too."""
    turned = {}
    for name, value in values.items():
        if isinstance(value, dict):
            turned[name] = turned_round(value)
        elif isinstance(value, bool) and OPTIONAL.search(str(name)):
            turned[name] = not value
        elif name != PLACE:
            turned[name] = value
    return turned


def add(found: dict[str, dict[str, Any]], name: str, entry: dict[str, Any]) -> None:
    """Adds an entry; one that is there gains its names, and is otherwise left as it is."""
    known = found.setdefault(name, entry)
    for key in NAMES:
        if known.get("tree", True) and key in entry:
            known[key] = sorted({*known.get(key, []), *entry[key]})


def merged(found: dict[str, dict[str, dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """One entry per class: its own, else that of a sub-model; with the names of all."""
    entries = {name: found[name][name] for name in found}
    for owner in sorted(found):
        for name, entry in found[owner].items():
            if not entries.get(name, entry).get("tree", True):
                entries[name] = dict(entry)
            add(entries, name, entry)
    for owner in sorted(found):
        for name, entry in found[owner].items():
            add_other_submodels(entries, name, entry)
    return entries


def add_other_submodels(
    entries: dict[str, dict[str, Any]], name: str, entry: dict[str, Any]
) -> None:
    """Adds the names of sub-models that a class only has inside of some others, as its own."""
    known = entries[name]
    if not known.get("tree", True):
        return
    usual = known.get("submodels", [])
    others = [
        other
        for other in entry.get("submodels", [])
        if not any(same_model(other, each) for each in usual)
    ]
    for key in NAMES:
        names = set(known.get(key, []))
        for other in others:
            composed = composed_names(entries, model_of(other), key)
            names |= {f"{other['path']}.{each}" for each in composed}
        if names:
            known[key] = sorted(names)


def same_model(one: dict[str, str], other: dict[str, str]) -> bool:
    """True for the same model at the same path, or for one whose class the config chooses."""
    return one["path"] == other["path"] and ("auto" in other or model_of(one) == model_of(other))


def model_of(submodel: dict[str, str]) -> str:
    """Class of a sub-model, as far as its entry tells."""
    return submodel.get("class") or auto_table(submodel["auto"])[submodel["model_type"]]


def composed_names(entries: dict[str, dict[str, Any]], name: str, key: str) -> set[str]:
    """Templates of all names of a class, or of all buffers, with those of its sub-models."""
    entry = entries.get(name, {})
    found = set(entry.get(key, []))
    for sub in entry.get("submodels", []):
        found |= {f"{sub['path']}.{each}" for each in composed_names(entries, model_of(sub), key)}
    return found


def auto_tables(entries: dict[str, dict[str, Any]]) -> dict[str, dict[str, str]]:
    """Class by model type, for each auto class that a sub-model is made by."""
    used = {
        sub["auto"] for e in entries.values() for sub in e.get("submodels", []) if "auto" in sub
    }
    return {name: auto_table(name) for name in sorted(used | {"AutoModel"})}


@functools.cache
def auto_table(name: str) -> dict[str, str]:
    """Class by model type; of several classes, the first is what config.json does not overrule."""
    mapping = getattr(transformers, name)._model_mapping._model_mapping
    return {
        model_type: classes if isinstance(classes, str) else classes[0]
        for model_type, classes in sorted(mapping.items())
    }
