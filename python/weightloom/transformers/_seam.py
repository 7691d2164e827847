"""Where Weightloom enters Transformers: one wrapper, which acts inside a call of ours only.

`PreTrainedModel._load_pretrained_model` is the one place that both `from_pretrained` and
`load_adapter` hand the built model, the resolved files and the mapping to, and that moves weights
and does nothing else. It is wrapped once; the wrapper asks a context variable whether the call came
through Weightloom, so that other threads and other calls load as they did before.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from transformers import PreTrainedModel
from transformers.utils import is_env_variable_true

from weightloom._load import Size

from . import _refusals

MOVER = "_load_pretrained_model"
DISTRIBUTED_MOVER = "_load_and_finalize_distributed_pretrained_model"


@dataclass
class Request:
    """What the caller asks of one load, and what came of it."""

    threads: int | None = None
    memory_budget: Size = None
    progress: Any = None
    lenient: bool = False
    adapter: bool = False
    loads: int = 0

    @property
    def workers(self) -> int | None:
        """One when Transformers is told to load in order; else what the caller says."""
        return 1 if is_env_variable_true("HF_DEACTIVATE_ASYNC_LOAD") else self.threads


_request: ContextVar[Request | None] = ContextVar("weightloom_request", default=None)
_installing = threading.Lock()


@contextmanager
def serving(request: Request) -> Iterator[Request]:
    """Inside, this thread's models take their weights through Weightloom."""
    _install()
    token = _request.set(request)
    try:
        yield request
    finally:
        _request.reset(token)


def _install() -> None:
    """Wraps the movers, once for the process."""
    from . import _loading

    with _installing:
        _wrap(MOVER, _loading.load_pretrained_model)
        if hasattr(PreTrainedModel, DISTRIBUTED_MOVER):
            _wrap(DISTRIBUTED_MOVER, _refuse_distributed)


def _refuse_distributed(request: Request, **arguments: Any) -> Any:
    raise _refusals.unsupported("a checkpoint written by torch.distributed.checkpoint")


def _wrap(name: str, ours: Callable[..., Any]) -> None:
    raw = inspect.getattr_static(PreTrainedModel, name, None)
    if raw is None:
        raise _refusals.unsupported(f"a Transformers without PreTrainedModel.{name}")
    plain = raw.__func__ if isinstance(raw, staticmethod | classmethod) else raw
    if hasattr(plain, "weightloom_wraps"):
        return
    wrapper = _wrapper(plain, ours)
    kind = type(raw) if isinstance(raw, staticmethod | classmethod) else None
    setattr(PreTrainedModel, name, kind(wrapper) if kind else wrapper)


def _wrapper(plain: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(plain)

    @functools.wraps(plain)
    def choose(*args: Any, **kwargs: Any) -> Any:
        request = _request.get()
        if request is None:
            return plain(*args, **kwargs)
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        request.loads += 1
        return ours(request, **bound.arguments)

    choose.weightloom_wraps = plain
    return choose
