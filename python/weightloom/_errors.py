"""What Weightloom raises. Every class is an `Error` and also the built-in kind that fits."""

from __future__ import annotations

import errno
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._core import Finding


class TiedValuesWarning(UserWarning):
    """config.json says that two tensors are tied, but their values differ."""


class UnlistedTensorsWarning(UserWarning):
    """A shard holds tensors that the index does not list."""


class Error(Exception):
    """What ends an operation of Weightloom.

    Attributes
    ----------
    code : str
        What kind of failure, as the command's ``--json`` says it: ``"plan"``, ``"not_found"``, …
    next_step : str
        What can be done about it; empty where the message says all.
    findings : list of Finding
        All that was found wrong.
    rank : int or None
        Of several processes that work together, the one that met it.
    """

    code: str = "unsupported"
    next_step: str = ""
    findings: Sequence[Finding] = ()
    message: str = ""
    rank: int | None = None

    def __str__(self) -> str:
        return f"{self.message}; next: {self.next_step}" if self.next_step else self.message


class UsageError(Error, ValueError):
    """An argument makes no sense."""


class FormatError(Error, ValueError):
    """A file is not what its format says."""


class CheckpointError(Error, ValueError):
    """Files are well formed but do not make one checkpoint."""


class MappingError(Error, ValueError):
    """A mapping is wrong or unknown."""


class PlanError(Error, ValueError):
    """A conversion is refused; `findings` says all of why."""


class NotFoundError(Error, FileNotFoundError):
    """A path does not exist."""


class ExistsError(Error, FileExistsError):
    """The destination exists and may not be replaced."""


class AccessError(Error, PermissionError):
    """The system refused access."""


class NoSpaceError(Error, OSError):
    """Disk, quota or memory are too small."""


class InputOutputError(Error, OSError):
    """The system failed a read or write."""


class CancelledError(Error):
    """The caller asked to stop."""


class UnsupportedError(Error, NotImplementedError):
    """Well formed, but outside what this release does."""


class UnknownTensorError(Error, KeyError):
    """A checkpoint has no tensor of that name."""


_CLASSES: dict[str, tuple[type[Error], int]] = {
    "usage": (UsageError, 0),
    "format": (FormatError, 0),
    "checkpoint": (CheckpointError, 0),
    "mapping": (MappingError, 0),
    "plan": (PlanError, 0),
    "not_found": (NotFoundError, errno.ENOENT),
    "exists": (ExistsError, errno.EEXIST),
    "permission": (AccessError, errno.EACCES),
    "no_space": (NoSpaceError, errno.ENOSPC),
    "io": (InputOutputError, errno.EIO),
    "cancelled": (CancelledError, 0),
    "unsupported": (UnsupportedError, 0),
}


_VALUE = r"(?:NAME|FILE\.json|FILE|auto|none|hub|runtime|same)"
_FLAG = re.compile(rf"--([a-z][a-z-]*)(?: ({_VALUE}(?:\|{_VALUE})*)\b)?")
_SWITCHES = {"overwrite", "resume", "lenient", "checksums"}


def in_python(text: str) -> str:
    """A text of the library that names flags of the command, with this package's arguments."""

    def argument(match: re.Match[str]) -> str:
        flag, value = match[1], match[2]
        name = {"from": "from_"}.get(flag, flag.replace("-", "_"))
        if flag in _SWITCHES:
            return f"{name}=True"
        return f"{name}={value!r}".replace("|", "' or '") if value else name

    return _FLAG.sub(argument, text)


def error_of(code: str, message: str, next_step: str, findings: Sequence[Finding]) -> Error:
    """The exception for an error of the library."""
    kind, number = _CLASSES[code]
    message, next_step = in_python(message), in_python(next_step)
    error = kind(message)
    error.code, error.message, error.next_step = code, message, next_step
    error.findings = list(findings)
    if isinstance(error, OSError):
        error.errno, error.strerror = number, message
    return error


def unknown_tensor(name: str, path: str) -> UnknownTensorError:
    """The exception for a name that a checkpoint does not have."""
    error = UnknownTensorError(name)
    error.code, error.message = "not_found", f"{path}: there is no tensor '{name}'"
    return error


def refusal(kind: type[Error], message: str, next_step: str = "") -> Error:
    """An exception of the Python package's own, by its class."""
    code = next(code for code, (known, _) in _CLASSES.items() if known is kind)
    return error_of(code, message, next_step, [])
