"""The library's layouts against numpy and against the plain Python model, on random chains.

The library runs through the build's ``layout_chain`` tool (``WEIGHTLOOM_BUILD_DIR``, default
``build/release``). ``WEIGHTLOOM_SEED`` chooses other chains.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import gcd, prod
from pathlib import Path

import layout_model as model
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
SEED = int(os.environ.get("WEIGHTLOOM_SEED", "7"))
SIZES = (0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 12)


def run_chains(chains: Sequence[str]) -> list[str]:
    tool = Path(os.environ.get("WEIGHTLOOM_BUILD_DIR", ROOT / "build/release")) / "layout_chain"
    if not tool.exists():
        pytest.skip(f"{tool} is not built")
    text = "".join(chain + "\n" for chain in chains)
    done = subprocess.run([tool], input=text, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@dataclass
class Chain:
    """A chain as text for the tool, as a layout of the model, and as a numpy array."""

    rng: random.Random
    steps: list[str] = field(default_factory=list)
    sources: list[np.ndarray] = field(default_factory=list)

    def __post_init__(self) -> None:
        shape = [self.rng.choice(SIZES) for _ in range(self.rng.randint(0, 4))]
        self.layout, self.array = self.leaf(shape)

    def leaf(self, shape: Sequence[int]) -> tuple[model.Layout, np.ndarray]:
        source = len(self.sources)
        array = np.arange(prod(shape)).reshape(shape) + 100_000 * (source + 1)
        self.sources.append(array)
        self.note("leaf", *shape)
        return model.identity(source, shape), array

    def note(self, *words: object) -> None:
        self.steps.append(" ".join(str(word) for word in words))

    def step(self) -> None:
        rank = self.array.ndim
        names = ["reshape"]
        if rank:
            names += ["permute", "slice", "take", "interleave"]
            names += ["concat", "stack", "pad"] if self.array.size < 1000 else []
        getattr(self, self.rng.choice(names))(self.rng.randrange(rank) if rank else 0)

    def reshape(self, _: int) -> None:
        shape, rest = [], self.array.size
        while rest > 1 and self.rng.random() < 0.7:
            shape.append(gcd(rest, self.rng.randint(1, 30)))
            rest //= shape[-1]
        shape.append(rest)
        self.rng.shuffle(shape)
        self.note("reshape", *shape)
        self.layout, self.array = model.reshape(self.layout, shape), self.array.reshape(shape)

    def permute(self, _: int) -> None:
        order = list(range(self.array.ndim))
        self.rng.shuffle(order)
        self.note("permute", *order)
        self.layout, self.array = model.permute(self.layout, order), self.array.transpose(order)

    def slice(self, dim: int) -> None:
        begin, end = sorted(self.rng.randint(0, self.array.shape[dim]) for _ in range(2))
        self.note("slice", dim, begin, end)
        self.layout = model.slice_(self.layout, dim, begin, end)
        self.array = np.take(self.array, range(begin, end), dim)

    def take(self, dim: int) -> None:
        if self.array.shape[dim] == 0:
            return
        index = self.rng.randrange(self.array.shape[dim])
        self.note("take", dim, index)
        self.layout = model.take(self.layout, dim, index)
        self.array = np.take(self.array, index, dim)

    def interleave(self, dim: int) -> None:
        ways, inverse = self.rng.choice((2, 3)), self.rng.random() < 0.5
        if self.array.shape[dim] % ways:
            return
        self.note("interleave", dim, ways, int(inverse))
        self.layout = model.interleave(self.layout, dim, ways, inverse)
        n, shape = self.array.shape[dim] // ways, self.array.shape
        two = (ways, n) if inverse else (n, ways)
        split = self.array.reshape(*shape[:dim], *two, *shape[dim + 1 :])
        self.array = np.swapaxes(split, dim, dim + 1).reshape(shape)

    def concat(self, dim: int) -> None:
        shape = list(self.array.shape)
        shape[dim] = self.rng.choice((0, 1, 2, 3, 5))
        layout, array = self.leaf(shape)
        self.note("concat", dim, 2)
        self.layout = model.concat([self.layout, layout], dim)
        self.array = np.concatenate([self.array, array], dim)

    def stack(self, dim: int) -> None:
        layout, array = self.leaf(self.array.shape)
        self.note("stack", dim, 2)
        self.layout = model.stack([self.layout, layout], dim)
        self.array = np.stack([self.array, array], dim)

    def pad(self, dim: int) -> None:
        before, after = self.rng.randint(0, 2), self.rng.randint(0, 3)
        self.note("pad", dim, before, after, 7)
        self.layout = model.pad(self.layout, dim, before, after, 7)
        widths = [(before, after) if d == dim else (0, 0) for d in range(self.array.ndim)]
        self.array = np.pad(self.array, widths, constant_values=7)


def random_chains(count: int) -> list[Chain]:
    chains = []
    for i in range(count):
        chain = Chain(random.Random(SEED * 1_000_000 + i))
        for _ in range(8):
            chain.step()
        chains.append(chain)
    return chains


def test_random_chains_equal_numpy_and_the_model() -> None:
    chains = random_chains(1500)
    results = run_chains([";".join(chain.steps) for chain in chains])
    assert len(results) == len(chains)
    for chain, text in zip(chains, results, strict=True):
        where = f"WEIGHTLOOM_SEED={SEED}: {chain.steps} gives {text}"
        layout = model.parse(text)
        assert layout.shape == chain.array.shape == chain.layout.shape, where
        assert (model.gather(layout, chain.sources) == chain.array).all(), where
        assert (model.origins(layout) == model.origins(chain.layout)).all(), where


def test_coalescing_changes_no_element() -> None:
    chains = random_chains(300)
    plain = run_chains([";".join(chain.steps) for chain in chains])
    joined = run_chains([";".join([*chain.steps, "coalesce"]) for chain in chains])
    for before, after in zip(map(model.parse, plain), map(model.parse, joined), strict=True):
        assert (model.origins(before) == model.origins(after)).all()
        assert len(after.regions) <= len(before.regions)


def test_split_gives_the_parts_of_numpy() -> None:
    array = np.arange(60).reshape(3, 5, 4)
    for index, part in enumerate(np.split(array, [2, 2], axis=1)):
        (text,) = run_chains([f"leaf 3 5 4;part 1 {index} 2 0 3"])
        assert (model.gather(model.parse(text), [array]) == part).all()


def test_misuse_is_told_with_its_numbers() -> None:
    (text,) = run_chains(["leaf 2 3;slice 1 1 4"])
    assert text == "error usage: slice: rows [1, 4) of dim 1 are not in [0, 3)"


def documented_examples() -> list[tuple[str, str]]:
    """(chain, notation) of every example line ``chain  =>  notation`` in docs/layout_algebra.md."""
    text = (ROOT / "docs/layout_algebra.md").read_text()
    blocks = re.findall(r"```layout\n(.*?)```", text, re.DOTALL)
    lines = " ".join("".join(blocks).split()).replace("] ", "]\n").splitlines()
    return [tuple(part.strip() for part in line.split("=>")) for line in lines]


def test_documented_examples_are_true() -> None:
    examples = documented_examples()
    assert len(examples) >= 8
    assert run_chains([chain for chain, _ in examples]) == [notation for _, notation in examples]
