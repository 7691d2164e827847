"""What the safetensors package offers, under the same names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from . import _core
from ._core import Checkpoint
from ._errors import UnsupportedError, UsageError, refusal
from ._load import PathLike, open, plan
from ._save import save

_FRAMEWORKS = {"np": "numpy", "numpy": "numpy", "pt": "torch", "torch": "torch"}


def framework_called(name: str) -> str:
    """A framework by any of the names that safetensors has for it."""
    if name in _FRAMEWORKS or name == "weightloom":
        return _FRAMEWORKS.get(name, name)
    raise refusal(UsageError, f"framework {name} is invalid", "take 'np', 'pt' or 'weightloom'")


def opened_file(filename: PathLike) -> Checkpoint:
    """The headers of one file."""
    path = os.fspath(filename)
    checkpoint = open(path, threads=1)
    if len(checkpoint.files) != 1 or os.path.isdir(path):
        raise refusal(UsageError, f"{path}: not one safetensors file", "use weightloom.open")
    return checkpoint


class safe_open:
    """Opens a safetensors file, and reads tensors as they are asked for.

    Parameters
    ----------
    filename : path
        The file.
    framework : {"np", "pt", "weightloom"}
        What tensors are.
    device : str, torch.device or int
        Where torch is to have them.

    Raises
    ------
    NotFoundError, FormatError
    """

    def __init__(
        self, filename: PathLike, framework: str, device: Any = "cpu", *, backend: str = "pread"
    ) -> None:
        self._framework = framework_called(framework)
        self._device = device
        self._checkpoint: Checkpoint | None = opened_file(filename)

    def __enter__(self) -> safe_open:
        return self

    def __exit__(self, *_: object) -> None:
        self._checkpoint = None

    @property
    def _opened(self) -> Checkpoint:
        if self._checkpoint is None:
            raise refusal(UsageError, "File is closed", "open it again")
        return self._checkpoint

    def keys(self) -> list[str]:
        """Names of the tensors, sorted."""
        return self._opened.keys()

    def offset_keys(self) -> list[str]:
        """Names of the tensors in the order of their data."""
        return self._opened.offset_keys()

    def metadata(self) -> dict[str, str] | None:
        """The strings of the header; None where there are none."""
        return self._opened.metadata(self._opened.files[0]) or None

    def get_tensor(self, name: str) -> Any:
        """One tensor, whole."""
        found = self._opened[name]
        return self._placed(_core.read_box(self._opened, found.name, [], [], self._framework))

    def get_tensors(self) -> dict[str, Any]:
        """All tensors by name, in one arena."""
        planned = plan(self._opened, mapping="none")
        tensors, _ = planned.load(framework=self._framework)
        return {name: self._placed(tensors[name]) for name in self.offset_keys()}

    def get_slice(self, name: str) -> TensorSlice:
        """A tensor to be indexed; only the part that is asked for is read."""
        return TensorSlice(self, name)

    def _placed(self, tensor: Any) -> Any:
        if self._framework != "torch" or str(self._device) == "cpu":
            return tensor
        return tensor.to(self._device)


class TensorSlice:
    """A tensor in a file. Indexing it reads the smallest box that holds what is asked for."""

    def __init__(self, file: safe_open, name: str) -> None:
        self._file = file
        self._info = file._opened[name]

    def get_shape(self) -> list[int]:
        """Sizes of the dims, outermost first."""
        return list(self._info.shape)

    def get_dtype(self) -> str:
        """As safetensors spells it."""
        return self._info.dtype

    def __getitem__(self, index: Any) -> Any:
        bounds, rest = _box(index, self._info.shape)
        if self._info.dtype in ("F4", "F6_E2M3", "F6_E3M2") and any(
            bound != (0, size) for bound, size in zip(bounds, self._info.shape, strict=True)
        ):
            raise refusal(
                UnsupportedError,
                f"tensor '{self._info.name}': parts of {self._info.dtype} may begin inside a byte",
                "take it whole with get_tensor",
            )
        begins, ends = [begin for begin, _ in bounds], [end for _, end in bounds]
        box = _core.read_box(
            self._file._opened, self._info.name, begins, ends, self._file._framework
        )
        if all(isinstance(part, slice) and part == slice(None) for part in rest):
            return self._file._placed(box)
        if isinstance(box, _core.Tensor):
            raise refusal(
                UnsupportedError,
                f"tensor '{self._info.name}': NumPy cannot index {self._info.dtype}",
                "take slices without steps, or framework='pt'",
            )
        return self._file._placed(box[tuple(rest)])


def _box(index: Any, shape: tuple[int, ...]) -> tuple[list[tuple[int, int]], list[Any]]:
    """The smallest box of rows that holds `index`, and what is left to do with it there."""
    parts = list(index) if isinstance(index, tuple) else [index]
    used = sum(_dims_of(part) for part in parts)
    if used > len(shape):
        raise IndexError(f"too many indices for tensor of dimension {len(shape)}")
    full: list[Any] = [slice(None)] * (len(shape) - used)
    dots = [i for i, part in enumerate(parts) if part is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    place = dots[0] if dots else len(parts)
    parts[place : place + 1] = full
    bounds: list[tuple[int, int]] = []
    rest = []
    for part in parts:
        if _dims_of(part) != 1:  # None and bools take no dim that could be cut
            bounds += [(0, size) for size in shape[len(bounds) : len(bounds) + _dims_of(part)]]
            rest.append(part)
            continue
        bound, left = _cut(part, len(bounds), shape[len(bounds)])
        bounds.append(bound)
        rest.append(left)
    return bounds, rest


def _dims_of(part: Any) -> int:
    """How many dims of the tensor an index takes."""
    if part is None or part is Ellipsis or isinstance(part, bool):
        return 0
    return part.ndim if str(getattr(part, "dtype", "")).endswith("bool") else 1


def _cut(part: Any, dim: int, size: int) -> tuple[tuple[int, int], Any]:
    """The bounds of one dim, and the index that is left to do within them."""
    if isinstance(part, slice):
        if part.step is not None and part.step <= 0:
            raise ValueError("step must be greater than zero")
        begin, end, step = part.indices(size)
        return (begin, max(begin, end)), slice(None, None, None if step == 1 else step)
    if hasattr(part, "__index__") and not getattr(part, "shape", ()):
        place = part.__index__()
        if not -size <= place < size:
            raise IndexError(f"index {place} is out of bounds for dimension {dim} with size {size}")
        return (place % size, place % size + 1), 0
    return (0, size), part


def load_file(filename: PathLike, framework: str = "numpy") -> dict[str, Any]:
    """All tensors of a safetensors file, by name, as they are.

    Parameters
    ----------
    filename : path
        The file.
    framework : {"numpy", "torch", "weightloom"}
        What tensors are.
    """
    with safe_open(filename, framework) as file:
        return file.get_tensors()


def save_file(
    tensors: Mapping[str, Any], filename: PathLike, metadata: Mapping[str, str] | None = None
) -> None:
    """Writes a safetensors file, byte for byte the one that the safetensors package writes.

    It is durable, and replaces a file of that name in one step.

    Parameters
    ----------
    tensors : mapping of str to array
        As `save` takes them.
    filename : path
        Ends in ``.safetensors``.
    metadata : mapping of str to str, optional
        Of the header.
    """
    if not os.fspath(filename).endswith(".safetensors"):
        raise refusal(
            UsageError,
            f"{os.fspath(filename)}: the name of the file does not end in .safetensors",
            "give it that ending, or use weightloom.save for a folder",
        )
    save(tensors, filename, mapping="none", metadata=metadata or {}, overwrite=True, progress=False)
