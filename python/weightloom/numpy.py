"""The functions of `safetensors.numpy` for files."""

from __future__ import annotations

from typing import Any

from ._load import PathLike
from ._safetensors import load_file as _load_file
from ._safetensors import save_file

__all__ = ["load_file", "save_file"]


def load_file(filename: PathLike, *, backend: str = "pread") -> dict[str, Any]:
    """All tensors of a safetensors file as NumPy arrays, by name.

    A tensor of a dtype that NumPy does not have is a `weightloom.Tensor`.
    """
    return _load_file(filename, "numpy")
