"""The command line as promised: exit codes, JSON, and one clear sentence per common mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Command
from safetensors_by_hand import Tensors, f32, facts, read_folder, u16, write_file, write_sharded

VERBS = ("inspect", "plan", "convert", "verify")


def mixtral_tensors() -> dict[str, object]:
    """One Mixtral layer of two experts, hub names."""
    layer = "model.layers.0.block_sparse_moe."
    tensors = {layer + "gate.weight": u16(1, (2, 6))}
    for expert in range(2):
        for tag, (key, shape) in enumerate({"w1": (4, 6), "w2": (6, 4), "w3": (4, 6)}.items()):
            tensors[f"{layer}experts.{expert}.{key}.weight"] = u16(9 * expert + tag, shape)
    return tensors


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    """A small sharded Mixtral checkpoint."""
    folder = tmp_path / "hub"
    write_sharded(folder, mixtral_tensors(), 3)
    config = {"model_type": "mixtral", "architectures": ["MixtralForCausalLM"]}
    (folder / "config.json").write_text(json.dumps({**config, "num_local_experts": 2}))
    return folder


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb_shows_an_example(weightloom: Command, verb: str) -> None:
    result = weightloom(verb, "--help").done()
    assert f"weightloom {verb} " in result.stdout
    assert result.stderr == ""


def test_help_names_all_verbs(weightloom: Command) -> None:
    result = weightloom("--help").done()
    assert all(verb in result.stdout for verb in VERBS)


@pytest.mark.parametrize(
    "arguments",
    [
        ["unknown-verb"],
        ["inspect"],
        ["inspect", "--no-such-flag", "."],
        ["convert", "."],
        ["plan", ".", "--to", "nowhere"],
        ["convert", ".", "out", "--max-shard-size", "lots"],
        ["convert", ".", "out", "--memory-budget", "-3"],
    ],
)
def test_wrong_usage_is_2(weightloom: Command, arguments: list[str]) -> None:
    result = weightloom(*arguments)
    assert result.code == 2
    assert result.stderr.strip()


def test_inspect_lists_tensors_and_the_mapping(weightloom: Command, hub: Path) -> None:
    seen = weightloom("inspect", hub, "--json").done().json
    wanted = read_folder(hub)
    assert {t["name"] for t in seen["tensors"]} == set(wanted)
    assert sorted(seen["files"]) == sorted(p.name for p in hub.glob("*.safetensors"))
    for tensor in seen["tensors"]:
        same = wanted[tensor["name"]]
        assert (tensor["dtype"], tuple(tensor["shape"])) == (same.dtype, same.shape)
        with (hub / tensor["file"]).open("rb") as file:
            file.seek(tensor["offset"])
            assert file.read(tensor["bytes"]) == same.data
    assert seen["bytes"] == sum(len(t.data) for t in wanted.values())
    assert seen["parameters"] == seen["bytes"] // 2
    assert seen["model"] == {"architectures": ["MixtralForCausalLM"], "model_type": "mixtral"}
    assert "mixtral" in json.dumps(seen["mapping"])


def test_plan_says_what_would_happen_and_moves_nothing(weightloom: Command, hub: Path) -> None:
    before = sorted(p.name for p in hub.parent.iterdir())
    plan = weightloom("plan", hub, "--to", "runtime", "--json").done().json
    targets = {t["name"]: t for t in plan["targets"]}
    experts = targets["model.layers.0.mlp.experts.gate_up_proj"]
    assert experts["shape"] == [2, 8, 6]
    assert experts["dtype"] == "BF16"
    assert len(experts["sources"]) == 4
    assert plan["bytes_needed"] == sum(len(t.data) for t in read_folder(hub).values())
    keys = {"rank", "world_size", "bytes_read", "bytes_written", "regions", "files"}
    keys |= {"peak_memory_bytes", "disk_bytes_needed", "disk_bytes_free"}
    assert keys <= set(plan)
    lists = {"missing", "unexpected", "mismatched", "errors", "notes"}
    assert lists <= set(plan["report"])
    assert plan["files"] == 3
    assert sorted(p.name for p in hub.parent.iterdir()) == before


def test_plan_with_error_findings_is_1(weightloom: Command, tmp_path: Path, hub: Path) -> None:
    tensors = mixtral_tensors()
    del tensors["model.layers.0.block_sparse_moe.experts.1.w3.weight"]
    write_file(tmp_path / "holed" / "model.safetensors", tensors)
    (tmp_path / "holed" / "config.json").write_bytes((hub / "config.json").read_bytes())
    result = weightloom("plan", tmp_path / "holed", "--to", "runtime")
    assert result.code == 1
    assert "experts.1.w3" in result.said


def test_convert_tells_what_it_did(weightloom: Command, tmp_path: Path, hub: Path) -> None:
    told = weightloom("convert", hub, tmp_path / "out", "--to", "runtime", "--json").done().json
    keys = {"files", "targets", "bytes_needed", "bytes_read", "bytes_written"}
    assert keys | {"peak_memory_bytes", "seconds", "findings"} <= set(told)
    assert told["bytes_read"] >= told["bytes_needed"] > 0
    assert (tmp_path / "out" / "weightloom.json").exists()
    assert (tmp_path / "out" / "config.json").exists()


def test_verify_of_one_folder(weightloom: Command, hub: Path) -> None:
    told = weightloom("verify", hub, "--json").done().json
    assert told["equal"] is True
    assert told["differences"] == []


def test_verify_finds_a_changed_bit(weightloom: Command, tmp_path: Path, hub: Path) -> None:
    weightloom("convert", hub, tmp_path / "out", "--to", "runtime").done()
    path = tmp_path / "out" / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    result = weightloom("verify", hub, tmp_path / "out", "--json")
    assert result.code == 1
    assert result.json["equal"] is False
    assert len(result.json["differences"]) == 1


def test_a_failure_under_json_is_one_value(weightloom: Command, tmp_path: Path) -> None:
    result = weightloom("convert", tmp_path / "absent", tmp_path / "out", "--json")
    assert result.code == 3
    assert {"code", "message", "next_step"} <= set(result.json["error"])
    assert result.json["findings"] == []
    assert "absent" in result.json["error"]["message"]


def test_a_wrong_folder_is_named(weightloom: Command, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "readme.txt").write_text("no weights")
    result = weightloom("inspect", tmp_path / "notes")
    assert result.code == 3
    assert "notes" in result.stderr
    assert "safetensors" in result.stderr
    assert result.stdout == ""


def test_a_pickled_checkpoint_is_refused_with_the_way_out(
    weightloom: Command, tmp_path: Path
) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "pytorch_model.bin").write_bytes(b"\x80\x02}q\x00.")
    result = weightloom("convert", tmp_path / "old", tmp_path / "out")
    assert result.code == 3
    assert "pytorch_model.bin" in result.stderr
    assert "safetensors" in result.stderr
    assert not (tmp_path / "out").exists()


def test_a_missing_shard_is_named(weightloom: Command, tmp_path: Path, hub: Path) -> None:
    (hub / "model-00002-of-00003.safetensors").unlink()
    result = weightloom("convert", hub, tmp_path / "out", "--to", "runtime")
    assert result.code == 3
    assert "model-00002-of-00003.safetensors" in result.stderr
    assert not (tmp_path / "out").exists()


def test_a_misspelt_mapping_suggests_the_right_one(
    weightloom: Command, tmp_path: Path, hub: Path
) -> None:
    result = weightloom("convert", hub, tmp_path / "out", "--mapping", "mixtrall")
    assert result.code in (2, 3)
    assert "mixtrall" in result.stderr
    assert "mixtral" in result.stderr.replace("mixtrall", "")


def test_an_unknown_model_type_is_refused(weightloom: Command, tmp_path: Path, hub: Path) -> None:
    (hub / "config.json").write_text('{"model_type": "unheard_of"}')
    result = weightloom("convert", hub, tmp_path / "out", "--to", "runtime")
    assert result.code == 3
    assert "unheard_of" in result.stderr
    assert "--mapping none" in result.stderr


def test_an_existing_destination_is_kept(weightloom: Command, tmp_path: Path, hub: Path) -> None:
    old: Tensors = {"old": f32(1, (2,))}
    write_file(tmp_path / "out" / "model.safetensors", old)
    result = weightloom("convert", hub, tmp_path / "out", "--to", "runtime")
    assert result.code in (2, 3)
    assert "--overwrite" in result.stderr
    assert facts(read_folder(tmp_path / "out")) == facts(old)
    weightloom("convert", hub, tmp_path / "out", "--to", "runtime", "--overwrite").done()
    assert "old" not in read_folder(tmp_path / "out")


def test_include_and_exclude_choose_targets(weightloom: Command, tmp_path: Path, hub: Path) -> None:
    weightloom(
        "convert", hub, tmp_path / "out", "--to", "runtime", "--quiet",
        "--include", "*.mlp.*", "--exclude", "*.gate.weight",
    ).done()  # fmt: skip
    experts = "model.layers.0.mlp.experts."
    assert set(read_folder(tmp_path / "out")) == {experts + "gate_up_proj", experts + "down_proj"}


def test_shards_are_as_small_as_asked(weightloom: Command, tmp_path: Path, hub: Path) -> None:
    weightloom("convert", hub, tmp_path / "out", "--max-shard-size", "100B").done()
    files = sorted((tmp_path / "out").glob("model-*.safetensors"))
    assert len(files) == len(read_folder(hub)) // 2 + 1
    assert facts(read_folder(tmp_path / "out")) == facts(read_folder(hub))


def test_a_split_can_be_copied(weightloom: Command, tmp_path: Path, hub: Path) -> None:
    weightloom("convert", hub, tmp_path / "one").done()
    weightloom("convert", tmp_path / "one", tmp_path / "out", "--layout-from", hub).done()
    index = "model.safetensors.index.json"
    wanted = json.loads((hub / index).read_text())["weight_map"]
    assert json.loads((tmp_path / "out" / index).read_text())["weight_map"] == wanted


def test_output_does_not_depend_on_threads_or_budget(
    weightloom: Command, tmp_path: Path, hub: Path
) -> None:
    for number, flags in enumerate((["--threads", 1], ["--memory-budget", "16MiB"], [])):
        target = tmp_path / f"out{number}"
        weightloom(
            "convert", hub, target, "--to", "runtime", "--max-shard-size", "200B", *flags
        ).done()
    files = [{p.name: p.read_bytes() for p in (tmp_path / f"out{n}").iterdir()} for n in range(3)]
    assert files[0] == files[1] == files[2]
