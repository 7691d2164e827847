"""Half of the registered classes, each as a tiny model, against Transformers: see class_sweep.py.

`python python/tests/class_sweep.py` takes all of them.
"""

from __future__ import annotations

import class_sweep

# Where the packages of the other classes are not installed, these are still to be built.
FEWEST_BUILT = 0.95


def test_load_save_and_convert_equal_transformers() -> None:
    """Names, dtypes and bits, from the command line and from Python."""
    names = class_sweep.half(class_sweep.registered_classes())
    outcomes = class_sweep.sweep(names, 2, lambda outcome: None)
    wrong = [f"{each.name}: {each.reason}" for each in outcomes if each.built and each.reason]
    assert not wrong, "\n".join(wrong)
    assert sum(each.built for each in outcomes) >= FEWEST_BUILT * len(outcomes)
    assert {each.name for each in outcomes if each.covered} >= set(class_sweep.ALWAYS) & set(names)
