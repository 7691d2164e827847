"""The functions of `safetensors.torch` for files, loading into modules that exist, and DTensors."""

from __future__ import annotations

from typing import Any

from ._dtensors import load_dtensors
from ._load import PathLike
from ._load_into import LoadReport, load_into
from ._safetensors import safe_open, save_file

__all__ = ["LoadReport", "load_dtensors", "load_file", "load_into", "save_file"]


def load_file(filename: PathLike, device: Any = "cpu", *, backend: str = "pread") -> dict[str, Any]:
    """All tensors of a safetensors file as torch tensors, by name."""
    with safe_open(filename, "torch", device) as file:
        return file.get_tensors()
