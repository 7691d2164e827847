"""Registered classes over meshes, each as a tiny model: see sharded_sweep.py.

All of them with `WEIGHTLOOM_ALL_CLASSES=1`; else some.
"""

from __future__ import annotations

import os

import class_sweep
import sharded_sweep


def test_each_rank_holds_its_slices_and_going_back_gives_the_bytes() -> None:
    """Tensors of each rank, and the hub's files again, over every mesh."""
    names = sharded_sweep.class_names()
    if not os.environ.get("WEIGHTLOOM_ALL_CLASSES"):
        names = sharded_sweep.some_of(names)
    outcomes = class_sweep.sweep(names, 2, lambda outcome: None, (sharded_sweep.check_meshes,))
    wrong = [f"{each.name}: {each.reason}" for each in outcomes if each.built and each.reason]
    assert not wrong, "\n".join(wrong)
    covered = {each.name: each.checks for each in outcomes if each.covered}
    assert covered.keys() >= set(sharded_sweep.ALWAYS)
    assert covered["MixtralForCausalLM"] == list(sharded_sweep.MESHES)
