"""The Python package: saving from memory, converting, comparing."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from conftest import REPOSITORY
from safetensors_by_hand import read_file, read_folder
from test_package_load import expected_runtime, mixtral, moe_tensors

import weightloom as wl

__all__ = ["mixtral"]
EXAMPLE = REPOSITORY / "examples" / "mixtral-tiny"


def files_of(folder: Path) -> dict[str, bytes]:
    """All files of a folder but the record."""
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.name != "weightloom.json"}


def test_what_was_loaded_saves_back_to_the_original_files(tmp_path: Path) -> None:
    plan = wl.plan(EXAMPLE, to="runtime")
    tensors, _ = plan.load(framework="torch")
    wl.save(tensors, tmp_path / "back", to="hub", record=plan.record, config=EXAMPLE)
    original = {n: d for n, d in files_of(EXAMPLE).items() if "safetensors" in n}
    assert {n: d for n, d in files_of(tmp_path / "back").items() if "safetensors" in n} == original


def test_without_a_record_the_rules_lead_back(mixtral: Path, tmp_path: Path) -> None:
    runtime = wl.load(mixtral)
    report = wl.save(runtime, tmp_path / "back", to="hub", config=mixtral)
    assert report.files == ["model.safetensors"]
    assert read_folder(tmp_path / "back") == moe_tensors()


def test_numpy_torch_and_own_tensors_save_the_same(tmp_path: Path) -> None:
    arrays = {
        "a": np.arange(6, dtype=np.float32).reshape(2, 3),
        "b": np.array(5),
    }
    wl.save_file(arrays, tmp_path / "numpy.safetensors")
    wl.save_file(
        {name: torch.from_numpy(array) for name, array in arrays.items()},
        tmp_path / "torch.safetensors",
    )
    own = wl.load(tmp_path / "numpy.safetensors", mapping="none", framework="weightloom")
    wl.save_file(own, tmp_path / "own.safetensors")
    texts = {(tmp_path / f"{kind}.safetensors").read_bytes() for kind in ("numpy", "torch", "own")}
    assert len(texts) == 1
    found = read_file(tmp_path / "own.safetensors")
    assert (found["a"].dtype, found["a"].data) == ("F32", arrays["a"].tobytes())
    assert (found["b"].dtype, found["b"].shape) == ("I64", ())


def test_shards_index_metadata_and_config(tmp_path: Path) -> None:
    tensors = {f"t{i}": torch.full((10,), float(i)) for i in range(4)}
    report = wl.save(
        tensors, tmp_path / "out", max_shard_size=80, metadata={"made": "here"}, config={"a": 1}
    )
    assert report.files == [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    assert json.loads((tmp_path / "out" / "config.json").read_text()) == {"a": 1}
    loaded = wl.load(tmp_path / "out", mapping="none", framework="torch")
    assert all(torch.equal(loaded[name], tensor) for name, tensor in tensors.items())
    assert wl.open(tmp_path / "out").metadata(report.files[0]) == {"made": "here"}


def test_casts_while_saving(tmp_path: Path) -> None:
    wl.save({"a": np.float32([1.0, 2.5])}, tmp_path / "x.safetensors", dtype="F16")
    assert read_file(tmp_path / "x.safetensors")["a"].data == np.float16([1.0, 2.5]).tobytes()


def test_renames_while_saving(tmp_path: Path) -> None:
    wl.save({"a.b": np.zeros(1)}, tmp_path / "x.safetensors", mapping="none", rename={"^a": "c"})
    assert list(read_file(tmp_path / "x.safetensors")) == ["c.b"]


def test_shared_memory_is_refused_unless_it_is_declared(tmp_path: Path) -> None:
    weight = torch.arange(6.0)
    tensors = {"embed": weight, "head": weight}
    with pytest.raises(wl.UsageError, match="'embed' and 'head' share memory"):
        wl.save(tensors, tmp_path / "x.safetensors")
    assert not (tmp_path / "x.safetensors").exists()
    wl.save(tensors, tmp_path / "x.safetensors", tied={"head": "embed"})
    assert list(read_file(tmp_path / "x.safetensors")) == ["embed"]
    with pytest.raises(wl.UsageError, match="'a' and 'b' share memory"):
        wl.save({"a": weight[:4], "b": weight[3:]}, tmp_path / "y.safetensors")
    wl.save({"a": weight[:3], "b": weight[3:]}, tmp_path / "y.safetensors")


def test_values_win_over_a_declared_tie(tmp_path: Path) -> None:
    tensors = {"embed": torch.zeros(2), "head": torch.ones(2)}
    wl.save(tensors, tmp_path / "x.safetensors", tied={"head": "embed"})
    assert sorted(read_file(tmp_path / "x.safetensors")) == ["embed", "head"]
    equal = {"embed": torch.zeros(2), "head": torch.zeros(2)}
    wl.save(equal, tmp_path / "y.safetensors", tied={"head": "embed"})
    assert sorted(read_file(tmp_path / "y.safetensors")) == ["embed"]
    with pytest.raises(wl.UsageError, match="no tensor of that name"):
        wl.save(equal, tmp_path / "z.safetensors", tied={"head": "absent"})


@pytest.mark.parametrize(
    "tensor",
    [
        np.zeros((3, 4)).T,
        np.zeros((3, 4))[:, ::2],
        np.zeros(3, ">f4"),
        np.zeros(3, "c16"),
        np.array(["text"]),
        torch.zeros(3, 4).t(),
        torch.zeros(3, 4).to_sparse(),
        torch.zeros(3, device="meta"),
        torch.complex(torch.ones(3), torch.ones(3)).conj(),
        3,
        [1.0],
        None,
    ],
)
def test_what_cannot_be_written_as_it_lies_is_refused(tmp_path: Path, tensor: object) -> None:
    with pytest.raises(wl.UsageError):
        wl.save({"x": tensor}, tmp_path / "x.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_parameters_that_want_gradients_are_saved(tmp_path: Path) -> None:
    wl.save_file({"w": torch.nn.Parameter(torch.ones(2))}, tmp_path / "x.safetensors")
    assert read_file(tmp_path / "x.safetensors")["w"].data == np.float32([1, 1]).tobytes()


def test_frozen_arrays_are_saved(tmp_path: Path) -> None:
    array = np.ones(2)
    array.flags.writeable = False
    wl.save_file({"w": array}, tmp_path / "x.safetensors")
    assert read_file(tmp_path / "x.safetensors")["w"].data == array.tobytes()


def test_an_existing_destination_stays_unless_it_may_be_replaced(tmp_path: Path) -> None:
    (tmp_path / "x.safetensors").write_bytes(b"old")
    with pytest.raises(FileExistsError):
        wl.save({"a": np.zeros(1)}, tmp_path / "x.safetensors")
    assert (tmp_path / "x.safetensors").read_bytes() == b"old"
    wl.save({"a": np.zeros(1)}, tmp_path / "x.safetensors", overwrite=True)
    assert list(read_file(tmp_path / "x.safetensors")) == ["a"]


def test_convert_and_verify_and_diff(mixtral: Path, tmp_path: Path) -> None:
    report = wl.convert(mixtral, tmp_path / "runtime", to="runtime", checksums=True)
    assert report.targets == len(expected_runtime())
    assert wl.verify(tmp_path / "runtime").has_checksums
    assert wl.verify(mixtral, tmp_path / "runtime")
    tensors = wl.load(tmp_path / "runtime", framework="torch")
    tensors["model.norm.weight"].zero_()
    changed = wl.in_memory(tensors, config=mixtral)
    found = wl.verify(tmp_path / "runtime", changed, mapping="none")
    assert [d.tensor for d in found.differences] == ["model.norm.weight"]
    assert not found
    differences = wl.diff(tmp_path / "runtime", changed, mapping="none").differences
    assert [(d.tensor, d.code) for d in differences] == [("model.norm.weight", "values")]
    assert differences[0].a == ("BF16", [4])


def test_a_registry_of_ones_own(mixtral: Path) -> None:
    registry = wl.Registry()
    assert "mixtral" in registry
    mapping = {
        "format": "weightloom.mapping/1",
        "name": "mixtral",
        "transforms": [
            {"type": "WeightRenaming", "source_patterns": ["^model."], "target_patterns": ["m."]}
        ],
    }
    with pytest.raises(wl.MappingError, match="mixtral"):
        registry.add_json(json.dumps(mapping))
    registry.add_json(json.dumps(mapping), overwrite=True)
    names = {target.name for target in wl.plan(mixtral, to="runtime", registry=registry).targets}
    assert "m.norm.weight" in names
    assert "mixtral" in (wl.Registry().json("mixtral") or "")
    assert wl.plan(mixtral, to="runtime").targets[0].name.startswith("model.")


SAVE_LARGE = """
import resource, sys
import torch, weightloom as wl
tensors = {f"t{i}": torch.full((16, 1 << 18), float(i)) for i in range(16)}  # 256 MiB
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
wl.save(tensors, sys.argv[1], memory_budget="16MiB", threads=2)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_saving_takes_no_second_copy_of_the_model(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SAVE_LARGE, str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 64, "MiB above what the tensors take"
    loaded = safetensors.torch.load_file(tmp_path / "out" / "model.safetensors")
    assert float(loaded["t7"].sum()) == 7.0 * (1 << 22)
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss > 0
