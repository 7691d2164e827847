"""The Python package: opening, planning and loading, against NumPy, torch and files by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors_by_hand import BITS, Tensor, f32, u16, write_file, write_sharded

import weightloom as wl

EXPERTS = 3


def moe_tensors() -> dict[str, Tensor]:
    """One Mixtral layer of three experts, hidden size 4, intermediate size 2, in BF16 patterns."""
    tensors = {"model.norm.weight": u16(1, (4,))}
    for expert in range(EXPERTS):
        stem = f"model.layers.0.block_sparse_moe.experts.{expert}"
        tensors[f"{stem}.w1.weight"] = u16(10 + expert, (2, 4))
        tensors[f"{stem}.w3.weight"] = u16(20 + expert, (2, 4))
        tensors[f"{stem}.w2.weight"] = u16(30 + expert, (4, 2))
    return tensors


@pytest.fixture
def mixtral(tmp_path: Path) -> Path:
    """`moe_tensors` in two shards with a config."""
    folder = tmp_path / "mixtral"
    write_sharded(folder, moe_tensors(), 2)
    config = {"model_type": "mixtral", "num_local_experts": EXPERTS}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def bits(tensor: Tensor) -> np.ndarray:
    """The 16-bit patterns of a tensor by hand."""
    return np.frombuffer(tensor.data, np.uint16).reshape(tensor.shape)


def expected_runtime() -> dict[str, np.ndarray]:
    """What Transformers' rules make of `moe_tensors`, by NumPy: stack, then concatenate."""
    hub = {name: bits(tensor) for name, tensor in moe_tensors().items()}
    stem = "model.layers.0.block_sparse_moe.experts"

    def stacked(part: str) -> np.ndarray:
        return np.stack([hub[f"{stem}.{i}.{part}.weight"] for i in range(EXPERTS)])

    return {
        "model.norm.weight": hub["model.norm.weight"],
        "model.layers.0.mlp.experts.gate_up_proj": np.concatenate(
            [stacked("w1"), stacked("w3")], axis=1
        ),
        "model.layers.0.mlp.experts.down_proj": stacked("w2"),
    }


def test_a_checkpoint_is_a_mapping_of_names_to_facts(mixtral: Path) -> None:
    checkpoint = wl.open(mixtral)
    assert list(checkpoint) == sorted(moe_tensors()) == checkpoint.keys()
    assert len(checkpoint) == 10
    assert "model.norm.weight" in checkpoint
    assert 3 not in checkpoint
    info = checkpoint["model.norm.weight"]
    assert (info.dtype, info.shape, info.nbytes) == ("BF16", (4,), 8)
    data = (mixtral / info.file).read_bytes()[info.offset : info.offset + info.nbytes]
    assert data == moe_tensors()["model.norm.weight"].data
    assert checkpoint.get("absent") is None
    assert checkpoint.nbytes == sum(len(tensor.data) for tensor in moe_tensors().values())


def test_loading_gives_the_runtime_layout(mixtral: Path) -> None:
    loaded = wl.load(mixtral)
    expected = expected_runtime()
    assert loaded.keys() == expected.keys()
    for name, tensor in loaded.items():
        assert isinstance(tensor, wl.Tensor)
        np.testing.assert_array_equal(tensor.numpy(view="uint16"), expected[name])


@pytest.mark.parametrize("threads", [1, 4])
def test_torch_tensors_hold_the_same_bits(mixtral: Path, threads: int) -> None:
    loaded = wl.load(mixtral, framework="torch", threads=threads, memory_budget="8MiB")
    for name, bits_wanted in expected_runtime().items():
        assert loaded[name].dtype == torch.bfloat16
        found = loaded[name].view(torch.uint16).numpy()
        np.testing.assert_array_equal(found, bits_wanted)


def test_every_dtype_that_torch_knows_arrives_as_it(tmp_path: Path) -> None:
    wanted = {
        "BOOL": torch.bool, "U8": torch.uint8, "I8": torch.int8, "I16": torch.int16,
        "U16": torch.uint16, "I32": torch.int32, "U32": torch.uint32, "I64": torch.int64,
        "U64": torch.uint64, "F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32,
        "F64": torch.float64, "C64": torch.complex64, "F8_E4M3": torch.float8_e4m3fn,
        "F8_E5M2": torch.float8_e5m2, "F8_E8M0": torch.float8_e8m0fnu,
        "F8_E4M3FNUZ": torch.float8_e4m3fnuz, "F8_E5M2FNUZ": torch.float8_e5m2fnuz,
        "F4": torch.float4_e2m1fn_x2,
    }  # fmt: skip
    data = {name: bytes(i % 2 for i in range(6 * BITS[name] // 8)) for name in wanted}
    tensors = {name: Tensor(name, (3, 2), data[name]) for name in wanted}
    write_file(tmp_path / "all.safetensors", tensors)
    loaded = wl.load(tmp_path / "all.safetensors", mapping="none", framework="torch")
    for name, dtype in wanted.items():
        assert loaded[name].dtype == dtype
        assert loaded[name].shape == ((3, 1) if name == "F4" else (3, 2))
        raw = loaded[name].contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        assert raw == data[name], name


def test_a_dtype_without_a_name_in_torch_is_refused_before_loading(tmp_path: Path) -> None:
    write_file(tmp_path / "x.safetensors", {"six": Tensor("F6_E2M3", (4,), b"abc")})
    with pytest.raises(wl.UnsupportedError, match=r"'six'.*F6_E2M3"):
        wl.load(tmp_path / "x.safetensors", mapping="none", framework="torch")
    assert bytes(wl.load(tmp_path / "x.safetensors", mapping="none")["six"].bytes) == b"abc"


def test_bf16_never_passes_for_numbers_of_another_type(mixtral: Path) -> None:
    tensor = wl.load(mixtral)["model.norm.weight"]
    with pytest.raises(wl.UnsupportedError, match="BF16"):
        np.asarray(tensor)
    with pytest.raises(wl.UnsupportedError, match="BF16"):
        tensor.numpy()
    with pytest.raises(wl.UsageError, match="16 bits"):
        tensor.numpy(view="uint8")
    with pytest.raises(TypeError):
        memoryview(tensor)


def test_numpy_arrays_and_dlpack_share_memory_and_keep_it_alive(tmp_path: Path) -> None:
    write_file(tmp_path / "x.safetensors", {"a": f32(1, (2, 3)), "b": f32(2, (4,))})
    loaded = wl.load(tmp_path / "x.safetensors", mapping="none", framework="weightloom")
    tensor = loaded.pop("a")
    array = tensor.numpy()
    again = np.from_dlpack(tensor)
    viewed = torch.from_dlpack(tensor)
    array[1, 2] = 7.0
    del tensor, loaded
    assert array.flags.writeable
    assert again[1, 2] == 7.0 == viewed[1, 2]
    assert array[0].tolist() == [4096.0, 4097.0, 4098.0]


def test_complete_is_called_once_per_tensor_with_whole_tensors(mixtral: Path) -> None:
    seen: dict[str, bytes] = {}

    def note(name: str, tensor: wl.Tensor) -> None:
        assert name not in seen
        seen[name] = bytes(tensor.bytes)

    wl.load(mixtral, complete=note, framework="weightloom")
    assert seen == {name: array.tobytes() for name, array in expected_runtime().items()}


def test_what_a_callback_raises_ends_the_load(mixtral: Path) -> None:
    def refuse(*_: object) -> None:
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        wl.load(mixtral, progress=refuse)
    with pytest.raises(LookupError, match="enough"):
        wl.load(mixtral, complete=refuse)


def test_progress_ends_with_all_bytes(mixtral: Path) -> None:
    told: list[tuple[int, int, str]] = []
    wl.load(mixtral, progress=lambda *news: told.append(news))
    done, total, name = told[-1]
    assert done == total == wl.open(mixtral).nbytes
    assert name in expected_runtime()


def test_load_into_fills_the_callers_buffers(mixtral: Path) -> None:
    plan = wl.plan(mixtral, to="runtime")
    expected = expected_runtime()
    buffers = {name: torch.zeros(a.shape, dtype=torch.bfloat16) for name, a in expected.items()}
    assert plan.load_into(buffers) == []
    for name, array in expected.items():
        np.testing.assert_array_equal(buffers[name].view(torch.uint16).numpy(), array)


def test_load_into_refuses_what_does_not_fit(mixtral: Path) -> None:
    plan = wl.plan(mixtral, to="runtime", include=["model.norm.weight"])
    name = "model.norm.weight"
    with pytest.raises(wl.UsageError, match="no buffer"):
        plan.load_into({})
    with pytest.raises(wl.UsageError, match="no target is called"):
        plan.load_into({name: np.zeros(8, np.uint8), "other": np.zeros(1)})
    with pytest.raises(wl.UsageError, match="another dtype"):
        plan.load_into({name: np.zeros(4, np.float16)})
    with pytest.raises(wl.UsageError, match="6 bytes, needed 8"):
        plan.load_into({name: np.zeros(6, np.uint8)})
    with pytest.raises(wl.UsageError, match="contiguous"):
        plan.load_into({name: np.zeros(16, np.uint8)[::2]})
    frozen = np.zeros(8, np.uint8)
    frozen.flags.writeable = False
    with pytest.raises(wl.UsageError, match="writable"):
        plan.load_into({name: frozen})
    raw = np.zeros(8, np.uint8)
    plan.load_into({name: raw})
    assert raw.tobytes() == moe_tensors()[name].data


def test_casts_and_selection(mixtral: Path) -> None:
    loaded = wl.load(mixtral, dtype=torch.float32, include=["*norm*"])
    assert list(loaded) == ["model.norm.weight"]
    wanted = bits(moe_tensors()["model.norm.weight"]).astype(np.uint32) << 16
    np.testing.assert_array_equal(loaded["model.norm.weight"].view(np.uint32), wanted)


def test_a_mapping_may_be_given_as_text(mixtral: Path) -> None:
    mapping = {
        "format": "weightloom.mapping/1",
        "name": "mine",
        "transforms": [
            {
                "type": "WeightRenaming",
                "source_patterns": ["^model."],
                "target_patterns": ["net."],
            }
        ],
    }
    plan = wl.plan(mixtral, mapping=json.dumps(mapping), to="runtime")
    assert plan.mapping == "mine"
    assert plan.fired == [0]
    assert {target.name.split(".")[0] for target in plan.targets} == {"net"}


def test_a_config_may_be_given_in_place_of_the_one_there(mixtral: Path) -> None:
    config = json.dumps({"model_type": "mixtral", "num_local_experts": 5})
    plan = wl.plan(mixtral, to="runtime", config_json=config)
    assert plan.is_refused
    with pytest.raises(wl.PlanError, match="5") as refused:
        plan.load()
    assert "count_mismatch" in {finding.code for finding in refused.value.findings}


def test_all_that_is_wrong_is_named_before_a_byte_moves(mixtral: Path) -> None:
    tensors = moe_tensors()
    del tensors["model.layers.0.block_sparse_moe.experts.1.w3.weight"]
    write_sharded(mixtral, tensors, 2)
    plan = wl.plan(mixtral, to="runtime")
    with pytest.raises(wl.PlanError) as refused:
        plan.load()
    assert refused.value.code == "plan"
    assert any("experts.1.w3" in finding.message for finding in refused.value.findings)


@pytest.mark.parametrize(
    ("path", "builtin", "code"),
    [("absent", FileNotFoundError, "not_found"), ("bad.safetensors", ValueError, "format")],
)
def test_errors_are_of_the_built_in_kinds(
    tmp_path: Path, path: str, builtin: type[Exception], code: str
) -> None:
    (tmp_path / "bad.safetensors").write_bytes(b"\x01")
    with pytest.raises(builtin) as refused:
        wl.open(tmp_path / path)
    assert isinstance(refused.value, wl.Error)
    assert refused.value.code == code
    assert refused.value.next_step


def test_an_unknown_name_is_a_key_error(mixtral: Path) -> None:
    with pytest.raises(KeyError, match="there is no tensor 'x'") as refused:
        wl.open(mixtral)["x"]
    assert isinstance(refused.value, wl.Error)


def test_next_steps_name_arguments_and_not_flags(tmp_path: Path) -> None:
    write_file(tmp_path / "x.safetensors", {"a": f32(1, (2,))})
    with pytest.raises(wl.MappingError) as refused:
        wl.load(tmp_path / "x.safetensors")
    assert "mapping='none'" in refused.value.next_step
    assert "--" not in str(refused.value)


def test_tied_names_are_the_same_tensor(tmp_path: Path) -> None:
    write_file(tmp_path / "x.safetensors", {"embed": f32(1, (2,))})
    loaded = wl.load(tmp_path / "x.safetensors", mapping="none", tied={"head": "embed"})
    assert loaded["head"] is loaded["embed"]


def test_unknown_arguments_are_refused(mixtral: Path) -> None:
    with pytest.raises(TypeError):
        wl.load(mixtral, no_such_option=1)
    with pytest.raises(wl.UsageError, match="framework"):
        wl.load(mixtral, framework="jax")
    with pytest.raises(wl.UsageError, match="include"):
        wl.load(mixtral, include="*norm*")
    with pytest.raises(wl.UsageError):
        wl.load(mixtral, to="elsewhere")


def test_facts_of_a_checkpoint(mixtral: Path) -> None:
    facts = wl.inspect(mixtral)
    assert (facts.tensors, facts.parameters, facts.nbytes) == (10, 76, 152)
    assert facts.dtypes == {"BF16": 152}
    assert (facts.mapping, facts.layout) == ("mixtral", "hub")


def test_what_a_runtime_expects_is_held_against_the_plan(mixtral: Path, tmp_path: Path) -> None:
    expected = {name: ("BF16", array.shape) for name, array in expected_runtime().items()}
    assert not wl.plan(mixtral, to="runtime", expect=expected).is_refused
    tensors = {
        name: torch.zeros(array.shape, dtype=torch.bfloat16)
        for name, array in expected_runtime().items()
    }
    assert not wl.plan(mixtral, to="runtime", expect=tensors).is_refused
    tensors["model.norm.weight"] = torch.zeros(4)
    found = wl.plan(mixtral, to="runtime", expect=tensors).findings
    assert [(finding.code, finding.tensor) for finding in found] == [
        ("mismatched", "model.norm.weight")
    ]
    del expected["model.norm.weight"]
    expected["absent"] = (None, None)
    expected["model.layers.0.mlp.experts.down_proj"] = (None, (1, 2, 3))
    plan = wl.plan(mixtral, to="runtime", expect=expected)
    codes = {(finding.code, finding.tensor) for finding in plan.findings}
    assert {
        ("unexpected", "model.norm.weight"),
        ("missing", "absent"),
        ("mismatched", "model.layers.0.mlp.experts.down_proj"),
    } <= codes
    with pytest.raises(wl.PlanError):
        plan.load()
    write_file(tmp_path / "like.safetensors", {"model.norm.weight": u16(0, (4,))})
    alone = wl.plan(mixtral, to="runtime", expect=tmp_path / "like.safetensors", include=["*norm*"])
    assert [target.name for target in alone.targets] == ["model.norm.weight"]


def test_names_that_the_config_ties_are_the_same_tensor(tmp_path: Path) -> None:
    folder = tmp_path / "tied"
    names = {"model.embed_tokens.weight": u16(1, (6, 4)), "model.norm.weight": u16(2, (4,))}
    write_file(folder / "model.safetensors", names)
    config = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "tie_word_embeddings": True,
    }
    (folder / "config.json").write_text(json.dumps(config))
    loaded = wl.load(folder, framework="torch")
    assert loaded["lm_head.weight"] is loaded["model.embed_tokens.weight"]
