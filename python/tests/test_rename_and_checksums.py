"""Names changed by hand, files kept by links, and digests held against the xxhash package."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import xxhash
from conftest import Command, Result
from safetensors import safe_open
from safetensors_by_hand import f32, facts, read_folder, read_header, u16, write_file, write_sharded

PLAIN = {f"layers.{i}.weight": u16(10 + i, (5, 3 + i)) for i in range(6)} | {"norm": f32(3, (7,))}
CHECKSUMS = "weightloom.checksums.json"
STRIP = r"^(?:(?:_orig_mod|module|_fsdp_wrapped_module)\.)+="


def digests(folder: Path) -> dict[str, str]:
    """What the xxhash package says of each tensor's bytes."""
    return {
        name: xxhash.xxh3_128(tensor.data).hexdigest()
        for name, tensor in read_folder(folder).items()
    }


def written_digests(folder: Path) -> dict[str, str]:
    """What stands in the checksum file."""
    value = json.loads((folder / CHECKSUMS).read_text(encoding="utf-8"))
    assert value["format"] == "weightloom.checksums/1"
    assert value["algorithm"] == "xxh3-128"
    return value["tensors"]


def refusal(result: Result) -> list[str]:
    """The codes of the findings that refused."""
    assert result.code == 3, result.said
    findings = result.json["findings"]
    return [finding["code"] for finding in findings if finding["severity"] == "error"]


# ---- prefixes of wrappers (transformers#25205, #28041; safetensors#403, #524) --------------------


@pytest.mark.parametrize(
    "prefix", ["_orig_mod.", "module.", "_orig_mod.module.", "module._orig_mod.", "module.module."]
)
def test_wrapper_prefixes_are_stripped(weightloom: Command, tmp_path: Path, prefix: str) -> None:
    write_sharded(tmp_path / "trained", {prefix + n: t for n, t in PLAIN.items()}, 3)
    weightloom("convert", tmp_path / "trained", tmp_path / "out", "--rename", STRIP).done()
    assert facts(read_folder(tmp_path / "out")) == facts(PLAIN)


def test_a_prefix_that_hides_a_collision_is_refused(weightloom: Command, tmp_path: Path) -> None:
    write_sharded(tmp_path / "mixed", PLAIN | {"module.norm": f32(4, (7,))}, 3)
    result = weightloom(
        "convert", tmp_path / "mixed", tmp_path / "out", "--rename", STRIP, "--json"
    )
    assert refusal(result) == ["duplicate_target"]
    assert "module.norm" in result.said
    assert not (tmp_path / "out").exists()


# MakazhanAlpamys/Soup#335, #351: zero matches is an error.
def test_a_rename_that_matches_nothing_is_refused(weightloom: Command, tmp_path: Path) -> None:
    write_sharded(tmp_path / "plain", PLAIN, 2)
    arguments = ("--rename", "layers=h", "--rename", STRIP, "--json")
    result = weightloom("convert", tmp_path / "plain", tmp_path / "out", *arguments)
    assert refusal(result) == ["rename_unmatched"]
    assert weightloom("plan", tmp_path / "plain", *arguments).code == 1


# ---- what stays ----------------------------------------------------------------------------------


def test_only_files_with_new_names_are_new(weightloom: Command, tmp_path: Path) -> None:
    source, out = tmp_path / "plain", tmp_path / "out"
    write_sharded(source, PLAIN, 3)
    told = weightloom("convert", source, out, "--rename", "^norm$=final_norm", "--json").done().json
    assert (told["files"], told["files_linked"]) == (3, 2)
    assert told["files_written"] + told["files_copied"] == 1
    for path in sorted(source.glob("*.safetensors")):
        was, begin = read_header(path)
        now, new_begin = read_header(out / path.name)
        if "norm" not in was:
            assert os.path.samefile(path, out / path.name)
            continue
        assert not os.path.samefile(path, out / path.name)
        assert new_begin % 4096 == begin % 4096
        was["final_norm"] = was.pop("norm")
        assert now == was  # metadata and offsets too
        with safe_open(out / path.name, "numpy") as file:
            assert "final_norm" in file.keys()  # noqa: SIM118


def test_an_unchanged_folder_is_the_source(weightloom: Command, tmp_path: Path) -> None:
    source, out = tmp_path / "plain", tmp_path / "out"
    write_sharded(source, PLAIN, 3)
    weightloom("convert", source, out).done()
    for path in source.iterdir():
        assert path.read_bytes() == (out / path.name).read_bytes()


# ---- digests -------------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", [(), ("--max-shard-size", "100"), ("--rename", "layers=h")])
@pytest.mark.parametrize("threads", [1, 8])
def test_digests_are_those_of_xxhash(
    weightloom: Command, tmp_path: Path, flags: tuple[str, ...], threads: int
) -> None:
    write_sharded(tmp_path / "plain", PLAIN | {"empty": u16(1, (0, 3))}, 3)
    arguments = (*flags, "--checksums", "--threads", threads)
    weightloom("convert", tmp_path / "plain", tmp_path / "out", *arguments).done()
    assert written_digests(tmp_path / "out") == digests(tmp_path / "out")
    weightloom("verify", tmp_path / "out").done()


def test_verify_names_both_digests(weightloom: Command, tmp_path: Path) -> None:
    write_file(tmp_path / "plain" / "model.safetensors", PLAIN)
    out = tmp_path / "out"
    weightloom("convert", tmp_path / "plain", out, "--checksums", "--max-shard-size", "1GB").done()
    right = written_digests(out)
    path = out / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    found = weightloom("verify", out, "--json")
    assert found.code == 1
    (finding,) = found.json["findings"]
    wrong = digests(out)[finding["tensor"]]
    assert finding["code"] == "checksum_mismatch"
    assert wrong in finding["message"]
    assert right[finding["tensor"]] in finding["message"]
