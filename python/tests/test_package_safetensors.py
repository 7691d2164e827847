"""The functions of the safetensors package: the same files, names, slices and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.numpy
import safetensors.torch
import torch
from safetensors_by_hand import read_header

import weightloom as wl
import weightloom.numpy
import weightloom.torch

TENSORS = {
    "b": torch.arange(24.0).reshape(2, 3, 4),
    "a": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
    "scalar": torch.tensor(5),
    "empty": torch.zeros(0, 3),
    "fp8": torch.arange(4, dtype=torch.uint8).view(torch.float8_e4m3fn),
    "e8": torch.arange(4, dtype=torch.uint8).view(torch.float8_e8m0fnu),
    "fp4": torch.arange(4, dtype=torch.uint8).reshape(2, 2).view(torch.float4_e2m1fn_x2),
    "flags": torch.tensor([True, False]),
    "complex": torch.tensor([1 + 2j], dtype=torch.complex64),
}


@pytest.fixture(params=[None, {"format": "pt", "k": "wört"}])
def path(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """`TENSORS` as the safetensors package writes them."""
    safetensors.torch.save_file(TENSORS, tmp_path / "x.safetensors", metadata=request.param)
    return tmp_path / "x.safetensors"


def raw(tensor: torch.Tensor) -> bytes:
    """The bytes of a tensor of any dtype."""
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equal in dtype, shape and bits."""
    return a.dtype == b.dtype and a.shape == b.shape and raw(a) == raw(b)


def test_save_file_writes_the_same_bytes(path: Path, tmp_path: Path) -> None:
    metadata = read_header(path)[0].get("__metadata__")  # that package writes it in any order
    weightloom.torch.save_file(TENSORS, tmp_path / "mine.safetensors", metadata)
    assert (tmp_path / "mine.safetensors").read_bytes() == path.read_bytes()


def test_save_file_of_nothing_writes_the_same_bytes(tmp_path: Path) -> None:
    safetensors.numpy.save_file({}, tmp_path / "theirs.safetensors")
    weightloom.numpy.save_file({}, tmp_path / "mine.safetensors")
    mine, theirs = (tmp_path / f"{who}.safetensors" for who in ("mine", "theirs"))
    assert mine.read_bytes() == theirs.read_bytes()


def test_load_file_gives_the_same_tensors(path: Path) -> None:
    mine = weightloom.torch.load_file(path)
    theirs = safetensors.torch.load_file(path)
    assert list(mine) == list(theirs)
    assert all(same(mine[name], theirs[name]) for name in theirs)


def test_load_file_gives_the_same_arrays(tmp_path: Path) -> None:
    arrays = {
        "i": np.arange(5, dtype=np.int16),
        "f": np.float64([[1.0]]),
        "b": np.array([True]),
        "c": np.complex64([1j]),
        "h": np.float16([2.0]),
        "u": np.uint64([2**63]),
    }
    safetensors.numpy.save_file(arrays, tmp_path / "x.safetensors")
    mine = weightloom.numpy.load_file(tmp_path / "x.safetensors")
    theirs = safetensors.numpy.load_file(tmp_path / "x.safetensors")
    assert list(mine) == list(theirs)
    for name, array in theirs.items():
        assert mine[name].dtype == array.dtype
        np.testing.assert_array_equal(mine[name], array)


def test_names_metadata_and_tensors_are_told_alike(path: Path) -> None:
    with wl.safe_open(path, "pt") as mine, safetensors.safe_open(path, "pt") as theirs:
        assert mine.keys() == theirs.keys()
        assert mine.offset_keys() == theirs.offset_keys()
        assert mine.metadata() == theirs.metadata()
        assert list(mine.get_tensors()) == list(theirs.get_tensors())
        for name in theirs.keys():  # noqa: SIM118 - it is no dict
            assert same(mine.get_tensor(name), theirs.get_tensor(name)), name
            slices = mine.get_slice(name), theirs.get_slice(name)
            assert slices[0].get_shape() == slices[1].get_shape()
            assert slices[0].get_dtype() == slices[1].get_dtype()


INDEXES: list[Any] = [
    slice(None), 0, -1, (0, 1), (0, 1, 2), (1, -1, -1), (slice(None), slice(None, None, 2)), ...,
    (..., slice(1, 3)), (slice(None), None), [0, 1], slice(0, 5), slice(-2, None), slice(1, 1),
    slice(2, 1), (slice(0, 2), [0, 2]), (slice(None), slice(1, -1)), slice(-5, None),
    slice(5, None), (), True, (None, 0, ..., None), (slice(None), slice(None), slice(1, None, 3)),
    np.int64(1), (slice(0, 1), ..., 3), torch.tensor([1, 0]), (torch.tensor([True, False]), 0),
]  # fmt: skip


@pytest.mark.parametrize("index", INDEXES, ids=repr)
def test_slices_give_the_same_parts(path: Path, index: object) -> None:
    with wl.safe_open(path, "pt") as mine, safetensors.safe_open(path, "pt") as theirs:
        assert same(mine.get_slice("b")[index], theirs.get_slice("b")[index])


@pytest.mark.parametrize("index", [3, -3, (0, 0, 0, 0), 1.5, slice(None, None, -1)])
def test_slices_refuse_alike(path: Path, index: object) -> None:
    with safetensors.safe_open(path, "pt") as theirs, pytest.raises(Exception) as wanted:  # noqa: PT011
        theirs.get_slice("b")[index]
    with wl.safe_open(path, "pt") as mine, pytest.raises(type(wanted.value)):
        mine.get_slice("b")[index]


def test_slices_of_bf16_for_numpy_are_tensors(path: Path) -> None:
    with wl.safe_open(path, "np") as file:
        part = file.get_slice("a")[1:]
        assert part.numpy(view="uint16").tolist() == [0xC000]
        with pytest.raises(wl.UnsupportedError, match="BF16"):
            file.get_slice("a")[::2]


def test_parts_of_sub_byte_tensors_are_refused(path: Path) -> None:
    with wl.safe_open(path, "pt") as file:
        assert same(file.get_slice("fp4")[...], TENSORS["fp4"])
        with pytest.raises(wl.UnsupportedError, match="inside a byte"):
            file.get_slice("fp4")[0]


def test_what_is_not_there_is_named(path: Path, tmp_path: Path) -> None:
    file = wl.safe_open(path, "pt")
    for read in (file.get_tensor, file.get_slice):
        with pytest.raises(KeyError, match="'nope'"):
            read("nope")
    with file:
        pass
    with pytest.raises(wl.UsageError, match="closed"):
        file.keys()
    with pytest.raises(FileNotFoundError):
        wl.safe_open(tmp_path / "absent.safetensors", "pt")
    with pytest.raises(wl.UsageError, match="framework zz"):
        wl.safe_open(path, "zz")
    with pytest.raises(wl.UsageError, match="one safetensors file"):
        wl.safe_open(tmp_path, "pt")


def test_a_broken_file_is_refused_by_both(tmp_path: Path) -> None:
    (tmp_path / "x.safetensors").write_bytes(b"\x09\0\0\0\0\0\0\0{}")
    with pytest.raises(safetensors.SafetensorError):
        safetensors.safe_open(tmp_path / "x.safetensors", "pt")
    with pytest.raises(wl.FormatError):
        wl.safe_open(tmp_path / "x.safetensors", "pt")


@pytest.mark.parametrize("metadata", [{"a": 1}, {1: "a"}])
def test_metadata_that_is_no_text_is_refused(tmp_path: Path, metadata: dict[Any, Any]) -> None:
    with pytest.raises(wl.UsageError, match="no text"):
        wl.save_file({"a": np.zeros(1)}, tmp_path / "x.safetensors", metadata)
    with pytest.raises(wl.UsageError, match="no text"):
        wl.save_file({1: np.zeros(1)}, tmp_path / "x.safetensors")  # type: ignore[dict-item]
