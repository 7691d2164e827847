"""The calls of `weightloom.transformers`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from transformers import PreTrainedModel

from weightloom._load import Size
from weightloom._progress import Progress

from . import _custom, _refusals, _saving
from ._seam import Request, serving


def from_pretrained(
    model_class: Any,
    pretrained_model_name_or_path: str | os.PathLike[str],
    *model_args: Any,
    threads: int | None = None,
    memory_budget: Size = None,
    progress: Progress = None,
    lenient: bool = False,
    **kwargs: Any,
) -> Any:
    """Load a model as its class's `from_pretrained` does, with the weights moved by Weightloom.

    Names, dtypes, bits, buffers, tied weights, training mode and generation config are those that
    the original gives. Refused, before a byte moves, is what the original passes over: two sources
    for one tensor, a gap in the numbers of experts, a name that stands in two files, and tensors
    that the model has no place for.

    Parameters
    ----------
    model_class
        An auto class or a model class, such as ``AutoModelForCausalLM``.
    pretrained_model_name_or_path
        A folder with safetensors files, or a model of the Hub, as Transformers takes them.
    *model_args
        Passed on to the class's `from_pretrained`.
    threads
        Workers of the load; by default as many as `weightloom.load` takes. One if the environment
        has ``HF_DEACTIVATE_ASYNC_LOAD=1``.
    memory_budget
        Bytes of working memory, or a text such as ``"1GiB"``.
    progress
        As for `weightloom.load`.
    lenient
        Leave tensors out that the model has no place for, instead of refusing them. They stand in
        the loading info either way.
    **kwargs
        Passed on: ``dtype``, ``device_map``, ``key_mapping``, ``output_loading_info``, ….

    Returns
    -------
    transformers.PreTrainedModel or tuple
        The model; with ``output_loading_info=True`` also the report of what was missing,
        unexpected and mismatched. Parameters on the CPU lie in one arena, which lives as long as
        one of them does; each is a tensor of its own, with its own storage.

    Raises
    ------
    weightloom.Error
        With code ``plan`` if the checkpoint does not fit, ``unsupported`` for pickled weights, GGUF
        and models that are spread over processes; and what reading files raises.
    """
    _refuse_other_ways(kwargs)
    with serving(Request(threads, memory_budget, progress, lenient)) as request:
        result = model_class.from_pretrained(pretrained_model_name_or_path, *model_args, **kwargs)
    if request.loads == 0:
        raise _refusals.nothing_served(f"{model_class.__name__}.from_pretrained")
    return result


_OTHER_WAYS = {
    "gguf_file": "GGUF files",
    "state_dict": "a state_dict that is in memory already",
    "distributed_config": "a model that is spread over processes",
    "tp_plan": "a model that is spread over processes",
    "tp_size": "a model that is spread over processes",
    "device_mesh": "a model that is sharded over a device mesh",
}


def _refuse_other_ways(kwargs: dict[str, Any]) -> None:
    for name, what in _OTHER_WAYS.items():
        if kwargs.get(name) is not None:
            raise _refusals.unsupported(f"{what} ({name}=)")


def load_adapter(
    model: PreTrainedModel,
    peft_model_id: str | os.PathLike[str],
    adapter_name: str | None = None,
    *,
    threads: int | None = None,
    memory_budget: Size = None,
    lenient: bool = False,
    **kwargs: Any,
) -> Any:
    """Add a PEFT adapter to a model, as ``model.load_adapter`` does.

    PEFT prepares the names and describes the mapping: the base model's, with its own operations in
    the place of some (block-diagonal joining, for a `lora_B` over fused experts). Weightloom moves
    what is rearranged only, and runs the rest on tensors that it reads.

    Parameters
    ----------
    model
        The base model.
    peft_model_id
        The adapter's folder, or its name on the Hub.
    adapter_name
        What to call it; ``"default"`` unless given.
    threads, memory_budget
        As in `from_pretrained`.
    lenient
        Leave tensors out that find no place in the model. They are an error otherwise: an adapter
        that is applied in part is another one.
    **kwargs
        Passed on: ``peft_config``, ``is_trainable``, ….

    Returns
    -------
    object
        Transformers' report: ``missing_keys`` (of the adapter), ``unexpected_keys``,
        ``mismatched_keys``.

    Raises
    ------
    weightloom.Error
        As `from_pretrained`; the adapter is then taken off the model again.
    """
    name = adapter_name or "default"
    request = Request(threads, memory_budget, lenient=lenient, adapter=True)
    return _custom.add_adapter(model, os.fspath(peft_model_id), name, request, kwargs)


def load_weights(
    model: PreTrainedModel,
    path: str | os.PathLike[str],
    transforms: Iterable[Any] | None = None,
    *,
    threads: int | None = None,
    memory_budget: Size = None,
    lenient: bool = False,
    require: Iterable[str] = (),
) -> Any:
    """Load a checkpoint into a model that exists, by a mapping of one's own.

    For heads, adapters and other parts that are trained and stored apart from the model: build the
    model so that the names are there, say how the stored names become those, and load. What the
    checkpoint does not hold stays as it is; parameters are replaced, not written into.

    Parameters
    ----------
    model
        Has the names; on the CPU.
    path
        A safetensors file, a folder or an index.
    transforms
        The mapping: transform objects of Transformers, in order. By default the model's own. See
        `added`, `with_operation` and `replaced` for edits of it.
    threads, memory_budget, lenient
        As in `from_pretrained`.
    require
        Names of the model that the checkpoint has to give, as patterns that are searched in names.

    Returns
    -------
    object
        Transformers' report of the load.

    Raises
    ------
    weightloom.Error
        As `from_pretrained`; also if a required name is missing.
    """
    request = Request(threads, memory_budget, lenient=lenient)
    return _custom.load_weights(model, os.fspath(path), transforms, request, tuple(require))


def save_pretrained(
    model: PreTrainedModel,
    save_directory: str | os.PathLike[str],
    *,
    max_shard_size: int | str = "50GB",
    variant: str | None = None,
    save_original_format: bool = True,
    state_dict: dict[str, Any] | None = None,
    threads: int | None = None,
    memory_budget: Size = None,
    progress: Progress = None,
    **kwargs: Any,
) -> None:
    """Save a model as ``model.save_pretrained`` does, with the weights written by Weightloom.

    The stored names and bits are those of the original: the transforms that fired when the model
    was loaded are reversed, and no others; for a model that was built from a config, those of the
    registry are, but for changes of prefix. Tied weights are written once. The weights go from
    where they lie into the files, so that no second copy of the model is made.

    Parameters
    ----------
    model
        On the CPU, or on devices.
    save_directory
        A folder; what stands in it under other names stays.
    max_shard_size
        Bytes of tensors in one file, or a text such as ``"5GB"``.
    variant
        Files are called ``model.VARIANT.safetensors``.
    save_original_format
        False: in the layout that the model has in memory.
    state_dict
        Tensors to write in the place of the model's own.
    threads, memory_budget, progress
        As in `from_pretrained`. The budget bounds the memory that saving takes.
    **kwargs
        Passed on to ``model.save_pretrained``, which writes everything but the weights.

    Raises
    ------
    weightloom.Error
        With code ``plan`` if the layout cannot be reversed, ``unsupported`` for quantised,
        adapted, offloaded and distributed models; and what writing files raises. Then no file of
        the folder has changed but config files.
    """
    options = _saving.SaveOptions(
        max_shard_size, variant, save_original_format, threads, memory_budget, progress
    )
    _saving.save(model, os.fspath(save_directory), state_dict, options, kwargs)
