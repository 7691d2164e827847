"""The functions of `safetensors.torch` for files, loading into modules that exist, and what the
ranks of a parallel program load and save.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._load import PathLike
from ._load_into import LoadReport, load_into
from ._safetensors import safe_open, save_file

if TYPE_CHECKING:
    from ._dtensors import load_dtensors
    from ._parallel_save import SaveHandle, Saver, save_hub, save_sharded

__all__ = [
    "LoadReport",
    "SaveHandle",
    "Saver",
    "load_dtensors",
    "load_file",
    "load_into",
    "save_file",
    "save_hub",
    "save_sharded",
]


def load_file(filename: PathLike, device: Any = "cpu", *, backend: str = "pread") -> dict[str, Any]:
    """All tensors of a safetensors file as torch tensors, by name."""
    with safe_open(filename, "torch", device) as file:
        return file.get_tensors()


def __getattr__(name: str) -> Any:
    """What needs torch.distributed, which takes long to import, when it is asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "._dtensors" if name == "load_dtensors" else "._parallel_save"
    return getattr(import_module(module, __package__), name)
