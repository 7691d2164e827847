"""Arrays of other packages as bytes with a dtype and a shape, without a copy.

Neither NumPy nor torch is imported for it: whoever has such an array has imported its package.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import _core
from ._core import Tensor
from ._errors import UsageError, refusal

Held = tuple[str, str, list[int], Any]

_SPELLINGS = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "int16": "I16",
    "uint16": "U16",
    "int32": "I32",
    "uint32": "U32",
    "int64": "I64",
    "uint64": "U64",
    "float16": "F16",
    "half": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float": "F32",
    "float64": "F64",
    "double": "F64",
    "complex64": "C64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e8m0fnu": "F8_E8M0",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float4_e2m1fn_x2": "F4",
}


def dtype_name(dtype: Any) -> str | None:
    """A dtype of torch, of NumPy or by any of its names as safetensors spells it; None for None."""
    if dtype is None:
        return None
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    name = name.removeprefix("torch.")
    if name in _core.DTYPES:
        return name
    if name not in _SPELLINGS:
        raise refusal(UsageError, f"safetensors has no dtype for {dtype}")
    return _SPELLINGS[name]


def held(name: str, tensor: Any) -> Held:
    """What `_core.in_memory` takes of a tensor: name, dtype, shape, its bytes.

    Raises
    ------
    UsageError
        If it is no tensor, has gaps or another device's memory, or a dtype of no file.
    """
    if not isinstance(name, str):
        raise refusal(UsageError, f"the name {name!r} of a tensor is no text", "give a str")
    if isinstance(tensor, Tensor):
        return name, tensor.dtype, list(tensor.shape), tensor.bytes
    if hasattr(tensor, "data_ptr"):
        return _held_torch(name, tensor)
    if hasattr(tensor, "__array_interface__"):
        return _held_numpy(name, tensor)
    raise refusal(
        UsageError,
        f"tensor '{name}': {type(tensor).__module__}.{type(tensor).__qualname__} is no tensor",
        "give NumPy arrays, torch tensors or weightloom.Tensor",
    )


def _held_torch(name: str, tensor: Any) -> Held:
    import torch

    if tensor.device.type != "cpu" or tensor.layout != torch.strided:
        raise refusal(
            UsageError,
            f"tensor '{name}': it is {tensor.layout} on {tensor.device}, not strided on the CPU",
            "move it with .cpu() or make it dense with .to_dense() first",
        )
    if not tensor.is_contiguous() or tensor.is_conj() or tensor.is_neg():
        raise refusal(
            UsageError,
            f"tensor '{name}': its elements do not lie row by row in memory",
            "copy it with .contiguous() first (and .resolve_conj(), .resolve_neg())",
        )
    dtype, shape = dtype_name(tensor.dtype), list(tensor.shape)
    if dtype == "F4":  # torch counts pairs
        shape[-1] *= 2
    return name, str(dtype), shape, tensor.detach().reshape(-1).view(torch.uint8)


def _held_numpy(name: str, array: Any) -> Held:
    import numpy

    if not array.flags.c_contiguous or not array.dtype.isnative:
        raise refusal(
            UsageError,
            f"tensor '{name}': its elements do not lie row by row in memory, or have another "
            "order of bytes",
            "copy it with numpy.ascontiguousarray(), or .astype() to a native dtype",
        )
    return (
        name,
        str(dtype_name(array.dtype)),
        list(array.shape),
        array.reshape(-1).view(numpy.uint8),
    )


def same_bits(name: str, a: Any, other: str, b: Any) -> bool:
    """True if two tensors have the same dtype, shape and bits."""
    _, *kind_a, bytes_a = held(name, a)
    _, *kind_b, bytes_b = held(other, b)
    return kind_a == kind_b and _core.equal_bytes(bytes_a, bytes_b)


def written_once(tensors: Mapping[str, Any], tied: Mapping[str, str]) -> dict[str, Any]:
    """`tensors` without those that `tied` says are another one under a second name.

    Values win over what is declared: a name whose bits are not those of the other stays.
    """
    kept = dict(tensors)
    for alias, name in tied.items():
        if name not in tensors:
            raise refusal(
                UsageError,
                f"tied: '{alias}' is to be '{name}', but there is no tensor of that name",
                "name tensors that are given",
            )
        if name == alias or _leads_back(alias, tied):
            raise refusal(
                UsageError,
                f"tied: '{alias}' is tied to itself, so no name would be left for it",
                "tie each name to one that is written",
            )
        if alias in kept and same_bits(alias, tensors[alias], name, tensors[name]):
            del kept[alias]
    return kept


def _leads_back(alias: str, tied: Mapping[str, str]) -> bool:
    """True if ties lead from a name to itself."""
    at, seen = tied[alias], {alias}
    while at in tied and at not in seen:
        seen.add(at)
        at = tied[at]
    return at in seen
