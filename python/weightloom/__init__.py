"""Weightloom: model weights between the layout they are stored in and the one a program wants.

>>> import weightloom
>>> weights = weightloom.load("Mixtral-8x7B", framework="torch")      # as the model has them
>>> weightloom.convert("Mixtral-8x7B", "mixtral-runtime", to="runtime")

`open` reads headers, `plan` says what would happen, `load`, `stream`, `save` and `convert` do it,
`verify` and `diff` compare. Every mistake in names, shapes or coverage is found, and named, before
the first byte moves.
"""

from ._core import (
    Checkpoint,
    ConvertReport,
    Difference,
    DiffReport,
    Expected,
    Finding,
    Plan,
    Registry,
    Stream,
    TargetInfo,
    Tensor,
    TensorDifference,
    TensorInfo,
    VerifyReport,
    __version__,
)
from ._errors import (
    AccessError,
    CancelledError,
    CheckpointError,
    Error,
    ExistsError,
    FormatError,
    InputOutputError,
    MappingError,
    NoSpaceError,
    NotFoundError,
    PlanError,
    UnknownTensorError,
    UnsupportedError,
    UsageError,
)
from ._load import default_registry, load, open, plan, stream
from ._safetensors import load_file, safe_open, save_file
from ._save import CheckpointFacts, convert, diff, in_memory, inspect, save, verify

__all__ = [
    "AccessError",
    "CancelledError",
    "Checkpoint",
    "CheckpointError",
    "CheckpointFacts",
    "ConvertReport",
    "DiffReport",
    "Difference",
    "Error",
    "ExistsError",
    "Expected",
    "Finding",
    "FormatError",
    "InputOutputError",
    "MappingError",
    "NoSpaceError",
    "NotFoundError",
    "Plan",
    "PlanError",
    "Registry",
    "Stream",
    "TargetInfo",
    "Tensor",
    "TensorDifference",
    "TensorInfo",
    "UnknownTensorError",
    "UnsupportedError",
    "UsageError",
    "VerifyReport",
    "__version__",
    "convert",
    "default_registry",
    "diff",
    "in_memory",
    "inspect",
    "load",
    "load_file",
    "open",
    "plan",
    "safe_open",
    "save",
    "save_file",
    "stream",
    "verify",
]
