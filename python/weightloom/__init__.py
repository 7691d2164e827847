"""Weightloom: model weights between the layout they are stored in and the one a program wants."""

from ._core import Checkpoint, Finding, Plan, TargetInfo, Tensor, TensorInfo, __version__
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
from ._load import load, open, plan

__all__ = [
    "AccessError",
    "CancelledError",
    "Checkpoint",
    "CheckpointError",
    "Error",
    "ExistsError",
    "Finding",
    "FormatError",
    "InputOutputError",
    "MappingError",
    "NoSpaceError",
    "NotFoundError",
    "Plan",
    "PlanError",
    "TargetInfo",
    "Tensor",
    "TensorInfo",
    "UnknownTensorError",
    "UnsupportedError",
    "UsageError",
    "__version__",
    "load",
    "open",
    "plan",
]
