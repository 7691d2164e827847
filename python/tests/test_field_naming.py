"""Faults met in the field with names, fused parts, experts; each right answer made with NumPy."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from conftest import Command, Result
from safetensors_by_hand import Tensor, Tensors, f32, facts, read_folder, write_file


def checkpoint(folder: Path, tensors: Tensors, config: dict[str, Any] | None = None) -> Path:
    """A folder with one file of weights and a config."""
    folder.mkdir(parents=True)
    write_file(folder / "model.safetensors", tensors, {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config or {}), encoding="utf-8")
    return folder


def mapping(path: Path, transforms: Sequence[dict[str, Any]]) -> Path:
    """A mapping file."""
    form = {"format": "weightloom.mapping/1", "name": "field", "transforms": list(transforms)}
    path.write_text(json.dumps(form), encoding="utf-8")
    return path


def rename(source: str, target: str) -> dict[str, Any]:
    return {"type": "WeightRenaming", "source_patterns": [source], "target_patterns": [target]}


def convert(sources: list[str], targets: list[str], *operations: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "WeightConverter",
        "source_patterns": sources,
        "target_patterns": targets,
        "operations": list(operations),
    }


def of(array: np.ndarray) -> Tensor:
    """An F32 tensor of an array."""
    return Tensor("F32", array.shape, np.ascontiguousarray(array, "<f4").tobytes())


def array(tensor: Tensor) -> np.ndarray:
    return np.frombuffer(tensor.data, "<f4").reshape(tensor.shape)


def both_ways(
    weightloom: Command, tmp_path: Path, rules: Path, hub: Path, runtime: Tensors
) -> None:
    """`hub` becomes `runtime`, and comes back by the record, and by the rules alone."""
    there, by_record, by_rules = (tmp_path / n for n in ("there", "by_record", "by_rules"))
    weightloom("convert", hub, there, "--from", "hub", "--to", "runtime", "--mapping", rules).done()
    assert facts(read_folder(there)) == facts(runtime)
    weightloom("convert", there, by_record, "--to", "hub").done()
    assert facts(read_folder(by_record)) == facts(read_folder(hub))
    ways = ("--from", "runtime", "--to", "hub", "--mapping", rules)
    weightloom("convert", there, by_rules, *ways).done()
    assert facts(read_folder(by_rules)) == facts(read_folder(hub))


def refused(result: Result, *words: str) -> None:
    assert result.code == 3, result.said
    for word in words:
        assert word in result.said, (word, result.said)


# ---- rotary order with fewer key heads than query heads ------------------------------------------

QUERY_HEADS, KEY_HEADS, HEAD, HIDDEN = 8, 2, 4, 3
ATTENTION = "model.layers.0.self_attn."


def half_split() -> dict[str, Tensor]:
    """Weights, biases and norms of q and k, and v and o, which no rotation touches."""
    tensors = {}
    for name, heads, tag in (("q", QUERY_HEADS, 1), ("k", KEY_HEADS, 2)):
        tensors[f"{ATTENTION}{name}_proj.weight"] = f32(tag, (heads * HEAD, HIDDEN))
        tensors[f"{ATTENTION}{name}_proj.bias"] = f32(tag + 10, (heads * HEAD,))
        tensors[f"{ATTENTION}{name}_norm.weight"] = f32(tag + 20, (HEAD,))
    tensors[f"{ATTENTION}v_proj.weight"] = f32(3, (KEY_HEADS * HEAD, HIDDEN))
    tensors[f"{ATTENTION}o_proj.weight"] = f32(5, (HIDDEN, QUERY_HEADS * HEAD))
    return tensors


def interleaved(tensor: Tensor, heads: int) -> Tensor:
    """Row h·D + s·(D/2) + i of each head goes to h·D + 2i + s."""
    rows = array(tensor)
    apart = rows.reshape(heads, 2, rows.shape[0] // heads // 2, *rows.shape[1:])
    return of(np.swapaxes(apart, 1, 2).reshape(rows.shape))


def test_each_of_q_and_k_is_permuted_with_its_own_heads(
    weightloom: Command, tmp_path: Path
) -> None:
    """ggml-org/llama.cpp#3364: k permuted with the query heads is right for some models only."""
    heads = {"q_proj": "num_attention_heads", "k_proj": "num_key_value_heads", "_norm": 1}
    permute = {"op": "PermuteForRope", "num_heads": heads, "inverse": True}
    names = ["q_proj", "k_proj", "q_norm", "k_norm"]
    rules = mapping(tmp_path / "rope.json", [convert([n], [n], permute) for n in names])
    config = {"num_attention_heads": QUERY_HEADS, "num_key_value_heads": KEY_HEADS}
    hub = checkpoint(tmp_path / "hub", half_split(), config)
    wanted = half_split()
    for name, tensor in wanted.items():
        count = {"q_proj": QUERY_HEADS, "k_proj": KEY_HEADS}.get(name.split(".")[-2], 1)
        if "v_proj" not in name and "o_proj" not in name:
            wanted[name] = interleaved(tensor, count)
    both_ways(weightloom, tmp_path, rules, hub, wanted)


def test_heads_that_the_config_does_not_say_are_refused(
    weightloom: Command, tmp_path: Path
) -> None:
    permute = {"op": "PermuteForRope", "num_heads": {"k_proj": "num_key_value_heads"}}
    rules = mapping(tmp_path / "rope.json", [convert(["k_proj"], ["k_proj"], permute)])
    hub = checkpoint(tmp_path / "hub", half_split(), {"num_attention_heads": QUERY_HEADS})
    ways = ("--from", "hub", "--to", "runtime", "--mapping", rules)
    refused(weightloom("convert", hub, tmp_path / "out", *ways), "num_key_value_heads")


# ---- fused parts ---------------------------------------------------------------------------------


def test_qkv_in_groups_of_heads_is_split_group_by_group(
    weightloom: Command, tmp_path: Path
) -> None:
    """epfLLM/Megatron-LLM#45: q, k and v of each group of heads stand together, not in blocks."""
    group = QUERY_HEADS // KEY_HEADS
    q, k, v = (
        np.arange(h * HEAD * HIDDEN, dtype="<f4").reshape(h * HEAD, HIDDEN) + 1000 * i
        for i, h in enumerate((QUERY_HEADS, KEY_HEADS, KEY_HEADS))
    )
    parts = [
        q.reshape(KEY_HEADS, group, HEAD, HIDDEN),
        k.reshape(KEY_HEADS, 1, HEAD, HIDDEN),
        v.reshape(KEY_HEADS, 1, HEAD, HIDDEN),
    ]
    fused = np.concatenate(parts, axis=1).reshape(-1, HIDDEN)
    groups = ["num_key_value_heads", -1, "head_dim"]
    rules = mapping(
        tmp_path / "qkv.json",
        [
            convert(
                ["attn.qkv.weight"],
                ["attn.q.weight", "attn.k.weight", "attn.v.weight"],
                {"op": "Unflatten", "dim": 0, "sizes": groups},
                {
                    "op": "Split",
                    "dim": 1,
                    "sizes": ["num_attention_heads/num_key_value_heads", 1, 1],
                },
                {"op": "Flatten", "dim": 0, "sizes": groups},
            )
        ],
    )
    config = {
        "num_attention_heads": QUERY_HEADS,
        "num_key_value_heads": KEY_HEADS,
        "head_dim": HEAD,
    }
    hub = checkpoint(tmp_path / "hub", {"l.attn.qkv.weight": of(fused)}, config)
    wanted = {"l.attn.q.weight": of(q), "l.attn.k.weight": of(k), "l.attn.v.weight": of(v)}
    both_ways(weightloom, tmp_path, rules, hub, wanted)


def test_interleaved_gate_and_up_are_taken_apart(weightloom: Command, tmp_path: Path) -> None:
    """trymirai/lalamo#339: rows g0 u0 g1 u1 are not [gate; up], and biases neither."""
    gate = np.arange(20, dtype="<f4").reshape(5, 4)
    up = gate + 100
    mixed = np.stack([gate, up], axis=1).reshape(10, 4)
    hub = checkpoint(
        tmp_path / "hub",
        {"m.gate_up.weight": of(mixed), "m.gate_up.bias": of(np.ascontiguousarray(mixed[:, 0]))},
    )
    rules = mapping(
        tmp_path / "gate.json",
        [
            convert(
                ["m.gate_up"],
                ["m.gate", "m.up"],
                {"op": "Interleave", "dim": 0},
                {"op": "Chunk", "dim": 0},
            )
        ],
    )
    wanted = {
        "m.gate.weight": of(gate),
        "m.up.weight": of(up),
        "m.gate.bias": of(gate[:, 0]),
        "m.up.bias": of(up[:, 0]),
    }
    both_ways(weightloom, tmp_path, rules, hub, wanted)


def test_an_odd_fused_size_is_refused(weightloom: Command, tmp_path: Path) -> None:
    """pytorch/torchtitan#4535: each part has to divide, not only the whole."""
    hub = checkpoint(tmp_path / "hub", {"m.gate_up.weight": f32(1, (7, 2))})
    rules = mapping(
        tmp_path / "gate.json",
        [convert(["m.gate_up"], ["m.gate", "m.up"], {"op": "Chunk", "dim": 0})],
    )
    ways = ("--from", "hub", "--to", "runtime", "--mapping", rules)
    refused(
        weightloom("convert", hub, tmp_path / "out", *ways),
        "[7, 2] does not divide into 2 equal parts",
    )


# ---- experts -------------------------------------------------------------------------------------


def test_layers_may_have_unequal_numbers_of_experts(weightloom: Command, tmp_path: Path) -> None:
    """egesabanci/reap-mlx#127: a pruned model has 16 experts in one layer and 8 in another."""
    counts = {0: 16, 1: 8}
    experts = {
        f"l.{layer}.experts.{e}.w.weight": f32(100 * layer + e, (2, 3))
        for layer, count in counts.items()
        for e in range(count)
    }
    stack = {"op": "MergeModulelist", "dim": 0}
    rules = mapping(tmp_path / "moe.json", [convert(["experts.*.w.weight"], ["experts.w"], stack)])
    hub = checkpoint(tmp_path / "hub", experts)
    wanted = {
        f"l.{layer}.experts.w": of(
            np.stack([array(experts[f"l.{layer}.experts.{e}.w.weight"]) for e in range(count)])
        )
        for layer, count in counts.items()
    }
    both_ways(weightloom, tmp_path, rules, hub, wanted)


def test_biases_without_elements_are_stacked(weightloom: Command, tmp_path: Path) -> None:
    """vllm-project/vllm#50937: exporters write [0] for an expert without a bias."""
    tensors = {f"experts.{e}.w.bias": of(np.zeros((0,), "<f4")) for e in range(3)}
    stack = {"op": "MergeModulelist", "dim": 0}
    rules = mapping(tmp_path / "moe.json", [convert(["experts.*.w.bias"], ["experts.b"], stack)])
    hub = checkpoint(tmp_path / "hub", tensors)
    out = tmp_path / "out"
    ways = ("--from", "hub", "--to", "runtime", "--mapping", rules)
    weightloom("convert", hub, out, *ways).done()
    assert facts(read_folder(out)) == facts({"experts.b": of(np.zeros((3, 0), "<f4"))})


def test_shared_experts_are_no_experts(weightloom: Command, tmp_path: Path) -> None:
    """huggingface/transformers#45782: `experts.` is a component, not the end of another."""
    tensors = {
        "mlp.experts.0.gate_proj.weight": f32(1, (2, 2)),
        "mlp.experts.0.up_proj.weight": f32(2, (2, 2)),
        "mlp.experts.0.down_proj.weight": f32(3, (2, 2)),
        "mlp.shared_experts.gate_proj.weight": f32(4, (2, 2)),
    }
    hub = checkpoint(tmp_path / "hub", tensors, {"model_type": "qwen3_moe"})
    plan = weightloom("plan", hub, "--to", "runtime", "--json").done().json
    names = [target["name"] for target in plan["targets"]]
    assert "mlp.shared_experts.gate_proj.weight" in names
    assert "mlp.experts.gate_up_proj" in names


# ---- names ---------------------------------------------------------------------------------------


def test_extra_prediction_layers_pass_through(weightloom: Command, tmp_path: Path) -> None:
    """huggingface/transformers#46129: layers past num_hidden_layers are kept and come back."""
    tensors = {
        "model.layers.0.mlp.gate_proj.weight": f32(1, (2, 2)),
        "model.layers.1.eh_proj.weight": f32(2, (2, 4)),
        "model.layers.1.enorm.weight": f32(3, (2,)),
        "model.layers.1.mlp.experts.0.gate_proj.weight": f32(4, (2, 2)),
        "model.layers.1.mlp.experts.0.up_proj.weight": f32(5, (2, 2)),
        "model.layers.1.mlp.experts.0.down_proj.weight": f32(6, (2, 2)),
        "mtp.fc.weight": f32(7, (2, 2)),
    }
    config = {"model_type": "deepseek_v3", "num_hidden_layers": 1, "n_routed_experts": 1}
    hub = checkpoint(tmp_path / "hub", tensors, config)
    there, back = tmp_path / "there", tmp_path / "back"
    weightloom("convert", hub, there, "--to", "runtime").done()
    kept = read_folder(there)
    for name in ("model.layers.1.eh_proj.weight", "model.layers.1.enorm.weight", "mtp.fc.weight"):
        assert kept[name].fact == tensors[name].fact
    assert "model.layers.1.mlp.experts.gate_up_proj" in kept
    weightloom("convert", there, back, "--to", "hub").done()
    assert facts(read_folder(back)) == facts(tensors)


def test_a_rename_of_two_groups_comes_back(weightloom: Command, tmp_path: Path) -> None:
    """huggingface/transformers#43355: one capture group was all there was."""
    rules = mapping(
        tmp_path / "two.json", [rename(r"blocks\.(\d+)\.(\w+)\.w$", r"layers.\1.mlp.\2.weight")]
    )
    hub = checkpoint(tmp_path / "hub", {f"blocks.{i}.up.w": f32(i, (2,)) for i in range(12)})
    wanted = {f"layers.{i}.mlp.up.weight": f32(i, (2,)) for i in range(12)}
    both_ways(weightloom, tmp_path, rules, hub, wanted)


def test_a_rule_of_a_sub_model_leaves_its_neighbours_alone(
    weightloom: Command, tmp_path: Path
) -> None:
    """huggingface/transformers#46402: a composite's rule met the wrong sub-model."""
    scoped = rename("^layers", "blocks") | {"scope": {"prefix": "text", "base_model_prefix": "m"}}
    rules = mapping(tmp_path / "scope.json", [scoped])
    hub = checkpoint(
        tmp_path / "hub",
        {"m.text.layers.0": f32(1, (2,)), "vision.layers.0": f32(2, (2,))},
    )
    wanted = {"m.text.blocks.0": f32(1, (2,)), "vision.layers.0": f32(2, (2,))}
    both_ways(weightloom, tmp_path, rules, hub, wanted)


def test_all_unmatched_rules_are_listed_before_work_begins(
    weightloom: Command, tmp_path: Path
) -> None:
    """ggml-org/llama.cpp#9211: a conversion stopped at its first odd name, after minutes."""
    required = [rename("^" + name, "x" + name) | {"required": True} for name in "abc"]
    rules = mapping(tmp_path / "all.json", required)
    hub = checkpoint(tmp_path / "hub", {"b.weight": f32(1, (2,))})
    ways = ("--from", "hub", "--to", "runtime", "--mapping", rules)
    out = tmp_path / "out"
    refused(weightloom("convert", hub, out, *ways), "transforms[0]", "transforms[2]")
    assert not out.exists()
