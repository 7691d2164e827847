"""What Weightloom refuses in a model's name, in words: where, what, found, needed, next step."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from weightloom._errors import error_of

MOST_LISTED = 20
_ORIGINAL = "use the original from_pretrained of the class"


def unsupported(what: str, next_step: str = _ORIGINAL) -> Exception:
    """For what lies outside of this release."""
    return error_of("unsupported", f"Weightloom does not load {what}", next_step, [])


def undecodable(source: str, reason: str) -> Exception:
    """A quantised checkpoint whose values only Transformers could bring to where they belong."""
    return unsupported(f"{source}: its codes become values that a rule is to rearrange: {reason}")


def supported_files(
    state_dict: dict[str, Any] | None, files: list[str] | None, config: Any
) -> list[str]:
    """The files to read.

    Raises
    ------
    weightloom.Error
        With code ``unsupported`` if the weights are no safetensors files, or the load is one that
        Transformers spreads over processes.
    """
    from transformers.integrations import is_deepspeed_zero3_enabled

    if state_dict is not None:
        raise unsupported("a state_dict that is in memory already")
    if getattr(config, "device_mesh", None) is not None:
        raise unsupported("a model that is sharded over a device mesh")
    if is_deepspeed_zero3_enabled():
        raise unsupported("a model under DeepSpeed ZeRO-3")
    if not files or not all(file.endswith(".safetensors") for file in files):
        raise _no_safetensors(files or [])
    return files


def _no_safetensors(files: list[str]) -> Exception:
    names = ", ".join(sorted(Path(file).name for file in files)) or "no file"
    return error_of(
        "unsupported",
        f"the weights are {names}, but Weightloom reads safetensors files only",
        f"convert them to safetensors, or {_ORIGINAL}",
        [],
    )


def refuse_unsavable(model: Any, kwargs: dict[str, Any]) -> None:
    """Refuses models whose weights are not simply tensors of one process.

    Raises
    ------
    weightloom.Error
        With code ``unsupported``.
    """
    what = _unsavable(model, kwargs)
    if what:
        raise error_of(
            "unsupported", f"Weightloom does not save {what}", "call model.save_pretrained", []
        )


def _unsavable(model: Any, kwargs: dict[str, Any]) -> str:
    places = set(getattr(model, "hf_device_map", {}).values())
    if getattr(model, "hf_quantizer", None) is not None:
        return "a quantised model"
    if getattr(model, "_hf_peft_config_loaded", False):
        return "a model with adapters"
    if places & {"cpu", "disk"} and len(places) > 1:
        return "a model with offloaded modules"
    if getattr(model, "_tp_size", None) or getattr(model, "_device_mesh", None) is not None:
        return "a model that is spread over processes"
    refused = [name for name in ("push_to_hub", "distributed_checkpoint") if kwargs.get(name)]
    return f"with {refused[0]}=" if refused else ""


def refuse_odd_tensor(name: str, tensor: Any) -> None:
    """Refuses what is in a state dict, but is no tensor with values."""
    import torch

    if isinstance(tensor, torch.Tensor) and tensor.device.type != "meta":
        return
    kind = "on the meta device" if isinstance(tensor, torch.Tensor) else type(tensor).__name__
    raise error_of(
        "unsupported",
        f"'{name}' is {kind}: there are no values to save",
        "call model.save_pretrained, or load the weights first",
        [],
    )


def unexpected_tensors(source: str, model: str, names: Iterable[str]) -> Exception:
    """The checkpoint has tensors that the model has no place for."""
    found = sorted(names)
    return error_of(
        "plan",
        f"{source}: {_count(len(found))} that {model} has no place for: {_listed(found)}",
        "load into the class that has them, give the rule that renames them (key_mapping=), or "
        "pass lenient=True to leave them out",
        [],
    )


def mismatched_tensors(source: str, model: str, found: Iterable[tuple[str, Any, Any]]) -> Exception:
    """Tensors whose shape is not the parameter's."""
    lines = sorted(
        f"'{name}' is {list(shape)}, but {model} wants {list(wanted)}"
        for name, shape, wanted in found
    )
    return error_of(
        "plan",
        f"{source}: {_count(len(lines))} of another shape: {_joined(lines)}",
        "check that config.json belongs to these weights, or pass ignore_mismatched_sizes=True to "
        "initialise those anew",
        [],
    )


def nothing_taken(source: str, model: str) -> Exception:
    """No tensor of the checkpoint is one of the model's."""
    return error_of(
        "plan",
        f"{source}: none of its tensors is one that {model} wants; every weight would be random",
        "check that the class belongs to the checkpoint",
        [],
    )


def incomplete_adapter(source: str, names: Iterable[str]) -> Exception:
    """The adapter leaves tensors of its own without values."""
    found = sorted(names)
    return error_of(
        "plan",
        f"{source}: the adapter gives no values for {_count(len(found))} of its own: "
        f"{_listed(found)}",
        "check that the adapter belongs to this model, or pass lenient=True to leave them as "
        "they are initialised",
        [],
    )


def required_missing(source: str, names: Iterable[str]) -> Exception:
    """The caller asked for tensors that the checkpoint does not give."""
    found = sorted(names)
    return error_of(
        "plan",
        f"{source}: no values for {_count(len(found))} that are required: {_listed(found)}",
        "check the mapping's rules, or require less",
        [],
    )


def without_values(source: str, names: Iterable[str]) -> Exception:
    """The model had no values for these, and the checkpoint gave none."""
    found = sorted(names)
    return error_of(
        "plan",
        f"{source}: {_count(len(found))} of the model are without values still: {_listed(found)}",
        "load what holds them first, or build the model with values",
        [],
    )


def nothing_served(what: str) -> Exception:
    """A call that took its weights by a way of its own."""
    return error_of(
        "unsupported",
        f"{what} did not load weights by PreTrainedModel.from_pretrained, so nothing was moved by "
        "Weightloom",
        "call the original",
        [],
    )


def _count(number: int) -> str:
    return "1 tensor" if number == 1 else f"{number} tensors"


def _listed(names: list[str]) -> str:
    return _joined([f"'{name}'" for name in names])


def _joined(texts: list[str]) -> str:
    more = f" and {len(texts) - MOST_LISTED} more" if len(texts) > MOST_LISTED else ""
    return ", ".join(texts[:MOST_LISTED]) + more
