"""Every pattern that Transformers registers matches, captures and renames here as it does there."""

from __future__ import annotations

import json
import random
import re
import subprocess
from typing import Any

import pytest

pytest.importorskip("transformers")

from conftest import Command
from transformers import core_model_loading
from transformers_mappings import Registered, mapping_text, registered_transforms

KEYS = 3000
SEED = 20_261

#: No name leads back: of two sources, or of a star, nothing is left in the target.
ONE_WAY = {"esm[0] reversed", "legacy[4] reversed"}

#: Its inverse is made by editing the pattern's text, which mangles `(?!(?:a|b)\\.)`: there it
#: searches `layers.\\1..)`, here the template's `layers.\\1.`; hand-written cases hold ours.
MANGLED = re.compile(r"\(\?!\(\?:")

WHOLE_NAMES = [
    "model.embed_tokens.weight",
    "lm_head.weight",
    "model.layers.0.self_attn.q_proj.weight",
    "model.layers.11.mlp.experts.127.gate_proj.weight",
    "model.layers.11.mlp.experts.127.gate_proj.weight_scale_inv",
    "model.layers.3.mlp.shared_experts.up_proj.weight",
    "bert.encoder.layer.0.attention.output.LayerNorm.gamma",
    "vision_tower.vision_model.encoder.layers.9.layer_norm1.bias",
    "language_model.model.layers.61.mlp.gate.e_score_correction_bias",
    "model.visual.blocks.2.attn.qkv.bias",
    "thinker.model.layers.5.input_layernorm.weight",
    "decoder.norm.weight",
    "encoder.layer_norm.norm.weight",
    "módel.layers.0.ñorm.weight",
    "a",
    "",
]

WORDS = [
    "model",
    "layers",
    "encoder",
    "decoder",
    "vision",
    "text",
    "norm",
    "attn",
    "mlp",
    "experts",
    "weight",
    "bias",
    "proj",
]


def instance_of(pattern: str, rng: random.Random) -> str:
    """A text that the pattern is likely to match: numbers for digits, a choice for choices."""
    text = re.sub(r"\(\?<?[!=](?:[^()]|\([^()]*\))*\)", "", pattern)
    text = re.sub(r"\(\?:", "(", text)
    text = re.sub(r"\(([^()]*)\)", lambda m: rng.choice(m.group(1).split("|")), text)
    text = re.sub(r"\\d\+?|\[[^]]*\]", lambda _: str(rng.randrange(13)), text)
    text = re.sub(r"\\w\+?|\.\+|\.\*", lambda _: rng.choice(WORDS), text)
    text = text.replace("*.", f"{rng.randrange(13)}.")
    return re.sub(r"\\(\d)", lambda _: str(rng.randrange(13)), text.replace("\\.", ".")).strip("^$")


def keys_for(registered: list[Registered], rng: random.Random) -> list[str]:
    """Names made of the patterns themselves, between other components."""
    patterns = [p for r in registered for p in r.transform._original_source_patterns]
    keys = list(WHOLE_NAMES)
    heads = [
        "",
        "model.",
        "language_model.",
        "model.layers.7.",
        "decoder.",
        "image_vit.",
        "x_",
        "x",
    ]
    tails = ["", ".weight", "weight", ".0.bias", "_1", "s.weight"]
    while len(keys) < KEYS:
        middle = instance_of(rng.choice(patterns), rng)
        if rng.random() < 0.2:
            middle += "." + instance_of(rng.choice(patterns), rng)
        keys.append(rng.choice(heads) + middle + rng.choice(tails))
    return keys


def python_hit(transform: Any, key: str) -> list[Any] | None:
    """Source number, begin, end (in bytes), new name, groups, as Python's re finds them."""
    match = transform.compiled_sources.search(key)
    if match is None:
        return None
    name = next(name for name, value in match.groupdict().items() if value is not None)
    source = int(name[1:])
    group = transform.compiled_sources.groupindex[name]
    count = re.compile(transform.source_patterns[source].replace("*.", r".*\.")).groups
    groups = [match.group(group + 1 + i) or "" for i in range(count)]
    begin, end = match.span()
    renamed = key[:begin] + replacement_of(transform, source, groups) + key[end:]
    in_bytes = [len(key[:place].encode()) for place in (begin, end)]
    return [source, *in_bytes, renamed, groups]


def replacement_of(transform: Any, source: int, groups: list[str]) -> str:
    """The target's text with its back-references filled in."""
    paired = isinstance(transform, core_model_loading.GroupWeightRename)
    target = transform.target_patterns[source if paired else 0]
    if offset := getattr(transform, "offset", 0):
        groups = [str(int(groups[0]) + offset), *groups[1:]]
    return re.sub(r"\\(\d)", lambda m: groups[int(m.group(1)) - 1], target)


def probe(command: Command, registered: list[Registered], keys: list[str]) -> list[Any]:
    """What the library says of each transform."""
    request = {"transforms": [mapping_text(r.transform) for r in registered], "names": keys}
    run = subprocess.run(
        [str(command.path.parent / "pattern_probe")],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    return [json.loads(line) for line in run.stdout.splitlines()]


@pytest.fixture(scope="module")
def comparison(weightloom: Command) -> tuple[list[Registered], list[str], list[Any]]:
    """The transforms, the names, and the library's answers."""
    registered = registered_transforms()
    keys = keys_for(registered, random.Random(SEED))
    return registered, keys, probe(weightloom, registered, keys)


def test_every_registered_transform_is_understood(comparison: Any) -> None:
    registered, _, answers = comparison
    refused = {
        r.label: a["error"] for r, a in zip(registered, answers, strict=True) if isinstance(a, dict)
    }
    assert refused.keys() == ONE_WAY, refused


def test_matches_groups_and_names_are_equal(comparison: Any) -> None:
    registered, keys, answers = comparison
    hits, differences = 0, []
    for item, answer in zip(registered, answers, strict=True):
        if isinstance(answer, dict) or is_mangled(item):
            continue
        ours = {hit[0]: hit[1:] for hit in answer}
        for i, key in enumerate(keys):
            theirs = python_hit(item.transform, key)
            hits += theirs is not None
            if ours.get(i) != theirs:
                differences.append((item.label, key, ours.get(i), theirs))
    assert not differences, f"{len(differences)} differences, such as {differences[:5]}"
    assert hits > 20_000, "the names hardly match anything: nothing was compared"


def is_mangled(item: Registered) -> bool:
    """True for a reversed transform whose search text Transformers broke."""
    return item.direction == "reversed" and any(
        MANGLED.search(target) for target in item.transform._original_target_patterns
    )


def test_what_transformers_renames_at_the_match_is_renamed_alike(comparison: Any) -> None:
    """Its own renaming differs only where the matched text stands in the name once before."""
    registered, keys, answers = comparison
    compared = elsewhere = 0
    for item, answer in zip(registered, answers, strict=True):
        if isinstance(answer, dict) or is_mangled(item):
            continue
        if isinstance(item.transform, core_model_loading.GroupWeightRename):
            continue  # remembers which names it saw
        for place, _, begin, end, renamed, _ in answer:
            key = keys[place].encode()
            compared += 1
            if key.find(key[begin:end]) != begin:
                elsewhere += 1
                continue
            assert item.transform.rename_source_key(keys[place])[0] == renamed, item.label
    assert compared > 20_000
    assert elsewhere < compared / 10
