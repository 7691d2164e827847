"""Files that Weightloom writes are, byte for byte, files that the safetensors package writes."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import torch
from conftest import Command
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save
from safetensors_by_hand import BITS, Tensor, read_header, write_file

TORCH_DTYPES = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "F8_E8M0": torch.float8_e8m0fnu,
    "F8_E4M3FNUZ": torch.float8_e4m3fnuz,
    "F8_E5M2FNUZ": torch.float8_e5m2fnuz,
    "I16": torch.int16,
    "U16": torch.uint16,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I32": torch.int32,
    "U32": torch.uint32,
    "F32": torch.float32,
    "C64": torch.complex64,
    "F64": torch.float64,
    "I64": torch.int64,
    "U64": torch.uint64,
}

shapes = st.lists(st.integers(0, 4), max_size=3).map(tuple)
names = st.text(
    st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=12
).filter(lambda name: name != "__metadata__")


@st.composite
def any_tensor(draw: st.DrawFn) -> Tensor:
    """A tensor of any dtype, shape and bits; booleans are 0 or 1."""
    dtype, shape = draw(st.sampled_from(sorted(TORCH_DTYPES))), draw(shapes)
    size = math.prod(shape) * BITS[dtype] // 8
    data = draw(st.binary(min_size=size, max_size=size))
    return Tensor(dtype, shape, bytes(b & 1 for b in data) if dtype == "BOOL" else data)


def to_torch(tensor: Tensor) -> torch.Tensor:
    """The same bits as a torch tensor."""
    dtype = TORCH_DTYPES[tensor.dtype]
    if not tensor.data:
        return torch.empty(tensor.shape, dtype=dtype)
    return torch.frombuffer(bytearray(tensor.data), dtype=dtype).reshape(tensor.shape)


# In the order drawn: rarely the order in which either writer puts tensors.
@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(tensors=st.dictionaries(names, any_tensor(), max_size=8))
def test_a_written_file_equals_the_packages(
    weightloom: Command, tensors: dict[str, Tensor]
) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        source, target = Path(scratch, "in.safetensors"), Path(scratch, "out.safetensors")
        write_file(source, tensors)
        weightloom("convert", source, target, "--mapping", "none", "--to", "same").done()
        metadata = read_header(target)[0].get("__metadata__")
        theirs = save({name: to_torch(t) for name, t in tensors.items()}, metadata)
        assert target.read_bytes() == theirs


def test_a_folder_declares_its_format(weightloom: Command, tmp_path: Path) -> None:
    tensors = {"b": Tensor("U8", (3,), b"\1\2\3"), "a": Tensor("F32", (), bytes(4))}
    write_file(tmp_path / "in" / "model.safetensors", tensors)
    arguments = ("--mapping", "none", "--max-shard-size", "1GB")  # an unchanged file is kept
    weightloom("convert", tmp_path / "in", tmp_path / "out", *arguments).done()
    written = tmp_path / "out" / "model.safetensors"
    assert read_header(written)[0]["__metadata__"] == {"format": "pt"}
    theirs = save({name: to_torch(t) for name, t in tensors.items()}, {"format": "pt"})
    assert written.read_bytes() == theirs
