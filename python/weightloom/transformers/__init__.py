"""Transformers models, loaded and saved by Weightloom: change one line.

`from_pretrained` gives what the class's own `from_pretrained` gives. Transformers builds the model,
chooses the files, the dtype and the mapping, initialises what is missing and ties what is tied;
every byte in between is moved by one program that Weightloom compiles from the mapping of the
*installed* Transformers for that very model. `save_pretrained` writes what `model.save_pretrained`
writes, without a second copy of the model in memory.

Examples
--------
>>> import weightloom.transformers
>>> from transformers import AutoModelForCausalLM
>>> model = weightloom.transformers.from_pretrained(AutoModelForCausalLM, "Mixtral-8x7B")
>>> weightloom.transformers.save_pretrained(model, "copy")
"""

from __future__ import annotations

from ._api import from_pretrained, load_adapter, load_weights, save_pretrained
from ._edits import added, replaced, with_operation

__all__ = [
    "added",
    "from_pretrained",
    "load_adapter",
    "load_weights",
    "replaced",
    "save_pretrained",
    "with_operation",
]
