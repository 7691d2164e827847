"""Quantised checkpoints by the Python package: codes as they are, values of them, and back."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from quantised_by_hand import bf16, decode_e4m3, fp8_block_values, fp8_codes, from_f32, mxfp4_values
from safetensors_by_hand import Tensor, facts, read_folder, u16, write_file, write_sharded
from test_quantised_models import fp8_pair

import weightloom as wl

UP, DOWN, NORM = "model.layers.0.up_proj.weight", "model.layers.0.down_proj.weight", "norm.weight"
SCHEME = {"quant_method": "fp8", "weight_block_size": [128, 128]}


def pairs() -> dict[str, Tensor]:
    """Codes and scales that quantising their values gives again; ragged, and a norm."""
    tensors = {NORM: u16(1, (160,))}
    for tag, (name, shape) in enumerate(((UP, (192, 160)), (DOWN, (160, 192)))):
        tensors[name], tensors[f"{name}_scale_inv"] = fp8_pair(tag, *shape)
    return tensors


def values() -> dict[str, Tensor]:
    """BF16 of `pairs`."""
    made = {name: tensor for name, tensor in pairs().items() if name == NORM}
    for name in (UP, DOWN):
        made[name] = bf16(fp8_block_values(pairs()[name], pairs()[f"{name}_scale_inv"]))
    return made


@pytest.fixture
def fp8(tmp_path: Path) -> Path:
    """`pairs` in two shards with a config."""
    return with_config(tmp_path / "fp8", pairs(), {"quantization_config": SCHEME})


def with_config(folder: Path, tensors: dict[str, Tensor], config: dict[str, Any]) -> Path:
    write_sharded(folder, tensors, 2)
    (folder / "config.json").write_text(json.dumps({"torch_dtype": "bfloat16", **config}))
    return folder


def bytes_of(tensor: Any) -> bytes:
    """Of a torch tensor."""
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


@pytest.mark.parametrize("threads", [1, 3])
def test_values_are_loaded_in_place_of_codes(fp8: Path, threads: int) -> None:
    loaded = wl.load(
        fp8,
        mapping="none",
        to="same",
        framework="torch",
        dequantize=True,
        threads=threads,
        memory_budget="8MiB",
    )
    assert sorted(loaded) == sorted(values())
    for name, tensor in values().items():
        assert loaded[name].dtype == torch.bfloat16
        assert bytes_of(loaded[name]) == tensor.data, name


def test_values_have_the_dtype_that_is_asked_for(fp8: Path) -> None:
    loaded = wl.load(fp8, mapping="none", to="same", dtype="F32", dequantize=True)
    wanted = fp8_block_values(pairs()[UP], pairs()[f"{UP}_scale_inv"])
    np.testing.assert_array_equal(loaded[UP], wanted)
    assert loaded[NORM].dtype == np.float32


def test_a_stream_hands_over_values(fp8: Path) -> None:
    with wl.stream(
        fp8, mapping="none", to="same", framework="torch", dequantize=True, memory_budget="16MiB"
    ) as tensors:
        streamed = {name: bytes_of(tensor) for name, tensor in tensors}
    assert streamed == {name: tensor.data for name, tensor in values().items()}


def test_buffers_of_the_caller_are_filled_with_values(fp8: Path) -> None:
    plan = wl.plan(fp8, mapping="none", dequantize=True)
    buffers = {t.name: torch.zeros(t.shape, dtype=torch.bfloat16) for t in plan.targets}
    plan.load_into(buffers)
    assert {n: bytes_of(t) for n, t in buffers.items()} == {n: t.data for n, t in values().items()}


def test_convert_makes_values_and_codes_of_them_again(fp8: Path, tmp_path: Path) -> None:
    there, back = tmp_path / "values", tmp_path / "back"
    wl.convert(fp8, there, "none", dequantize=True, progress=False)
    assert facts(read_folder(there)) == facts(values())
    assert "quantization_config" not in json.loads((there / "config.json").read_text())
    wl.convert(there, back, "none", quantize="fp8-block", progress=False)
    assert facts(read_folder(back)) == facts(pairs())
    told = json.loads((back / "config.json").read_text())["quantization_config"]
    assert (told["quant_method"], told["weight_block_size"]) == ("fp8", [128, 128])


def test_verify_and_diff_compare_values_with_codes(fp8: Path, tmp_path: Path) -> None:
    there = tmp_path / "values"
    wl.convert(fp8, there, "none", dequantize=True, progress=False)
    as_values: dict[str, Any] = {"mapping": "none", "dequantize": True, "progress": False}
    assert wl.verify(there, fp8, **as_values)
    assert wl.diff(there, fp8, **as_values)
    other = with_config(
        tmp_path / "other",
        pairs() | {f"{UP}_scale_inv": from_f32(np.full((2, 2), 0.75))},
        {"quantization_config": SCHEME},
    )
    assert not wl.verify(there, other, **as_values)
    report = wl.diff(there, other, **as_values)
    assert not report
    assert [difference.tensor for difference in report.differences] == [UP]


def test_values_in_memory_are_saved_as_codes(fp8: Path, tmp_path: Path) -> None:
    loaded = wl.load(fp8, mapping="none", to="same", framework="torch", dequantize=True)
    config = {"torch_dtype": "bfloat16", "quantization_config": SCHEME}
    wl.save(loaded, tmp_path / "out", "none", config=config, quantize="fp8-block", progress=False)
    assert facts(read_folder(tmp_path / "out")) == facts(pairs())


def test_a_rank_loads_values_of_its_rows(fp8: Path) -> None:
    rows = {"*_proj.weight": [{"axis": "tp", "shard": 0}], "*": []}
    for rank in range(3):
        part = wl.load(
            fp8,
            mapping="none",
            to="same",
            framework="torch",
            dequantize=True,
            mesh="tp=3",
            rank=rank,
            placements=rows,
        )
        mine = values()[UP].bits16()[64 * rank : 64 * rank + 64]
        assert bytes_of(part[UP]) == mine.tobytes()


def test_what_does_not_fit_is_refused_by_name(tmp_path: Path) -> None:
    tensors = pairs()
    del tensors[f"{UP}_scale_inv"]
    folder = with_config(tmp_path / "in", tensors, {"quantization_config": SCHEME})
    with pytest.raises(wl.PlanError, match=UP.replace(".", r"\.")) as caught:
        wl.load(folder, mapping="none", to="same", dequantize=True)
    assert "scale_missing" in [finding.code for finding in caught.value.findings]
    with pytest.raises(wl.UsageError, match="fp9"):
        wl.plan(folder, quantize="fp9")


def stored_kinds() -> dict[str, Tensor]:
    """Every dtype that codes and scales have."""
    return {
        "e4m3": fp8_codes(1, (16, 32)),
        "e5m2": Tensor("F8_E5M2", (16, 32), bytes(range(256)) * 2),
        "e8m0": Tensor("F8_E8M0", (16, 16), bytes(range(256))),
        "words": Tensor("I32", (8, 8), np.arange(64, dtype="<i4").tobytes()),
        "pairs": Tensor("U8", (4, 2, 16), bytes(range(128))),
        "bytes": Tensor("I8", (128,), bytes(range(128, 256))),
        "plain": u16(3, (8, 8)),
    }


KINDS = {
    "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
    "e8m0": torch.float8_e8m0fnu,
    "words": torch.int32,
    "pairs": torch.uint8,
    "bytes": torch.int8,
    "plain": torch.bfloat16,
}


def test_codes_reach_torch_in_the_memory_that_they_were_read_to(tmp_path: Path) -> None:
    """One arena holds all; each tensor is of torch's own dtype, and what it shows lies there."""
    write_file(tmp_path / "x.safetensors", stored_kinds())
    seen: dict[str, int] = {}
    plan = wl.plan(tmp_path / "x.safetensors", mapping="none")
    loaded, _ = plan.load(framework="torch", complete=lambda n, t: seen.update({n: t.data_ptr()}))
    for name, dtype in KINDS.items():
        assert loaded[name].dtype == dtype
        assert tuple(loaded[name].shape) == stored_kinds()[name].shape
        assert bytes_of(loaded[name]) == stored_kinds()[name].data, name
    assert {name: tensor.data_ptr() for name, tensor in loaded.items()} == seen
    begins = sorted((t.data_ptr(), t.nbytes) for t in loaded.values())
    gaps = [b - (a + n) for (a, n), (b, _) in pairwise(begins)]
    assert min(gaps) >= 0
    assert max(gaps) < 4096  # neighbours in the arena, apart but for their alignment


def test_a_tensor_and_torch_s_view_of_its_codes_are_one_memory(tmp_path: Path) -> None:
    write_file(tmp_path / "x.safetensors", stored_kinds())
    loaded = wl.load(tmp_path / "x.safetensors", mapping="none", framework="weightloom")
    for name, dtype in KINDS.items():
        tensor = loaded[name]
        viewed = tensor.torch()
        assert viewed.dtype == dtype
        assert viewed.data_ptr() == np.frombuffer(tensor.bytes, np.uint8).ctypes.data
        tensor.bytes[0] = 0x11
        assert bytes_of(viewed)[0] == 0x11


def test_torch_s_codes_are_saved_and_decoded_where_they_lie(tmp_path: Path) -> None:
    """In memory too: torch's FP8 tensors and scales are a checkpoint like any other."""
    codes = torch.arange(256, dtype=torch.uint8).reshape(2, 128)
    codes[(codes & 127) == 127] = 0
    source = wl.in_memory(
        {UP: codes.view(torch.float8_e4m3fn), f"{UP}_scale_inv": torch.tensor([[0.5]])},
        config={"quantization_config": SCHEME},
    )
    loaded = wl.load(source, mapping="none", to="same", dtype="F32", dequantize=True)
    np.testing.assert_array_equal(loaded[UP], decode_e4m3(codes.numpy()) * np.float32(0.5))


def test_mxfp4_experts_are_loaded_as_the_model_has_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    blocks = rng.integers(0, 256, (2, 6, 3, 16), dtype=np.uint8)
    scales = rng.integers(110, 140, (2, 6, 3), dtype=np.uint8)
    name = "model.layers.0.mlp.experts.down_proj"
    tensors = {
        f"{name}_blocks": Tensor("U8", blocks.shape, blocks.tobytes()),
        f"{name}_scales": Tensor("U8", scales.shape, scales.tobytes()),
    }
    folder = with_config(
        tmp_path / "in", tensors, {"quantization_config": {"quant_method": "mxfp4"}}
    )
    loaded = wl.load(folder, mapping="none", to="same", framework="torch", dequantize=True)
    wanted = bf16(mxfp4_values(blocks, scales).transpose(0, 2, 1))
    assert tuple(loaded[name].shape) == (2, 96, 6)
    assert bytes_of(loaded[name]) == wanted.data
