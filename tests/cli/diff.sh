# How two checkpoints differ, in number.
make_pair() {
  python3 - <<'PYTHON'
import json, pathlib, struct
def write(path, tensors):
    header, data = {}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + data)
f32 = lambda *v: struct.pack(f"<{len(v)}f", *v)
bf16 = lambda *v: b"".join(struct.pack("<f", x)[2:] for x in v)
nan, inf = float("nan"), float("inf")
write("base.safetensors", {
    "cast": ("BF16", [2], bf16(1, 2)), "far": ("F32", [2, 2], f32(1, 2, 3, 4)), "gone": ("I64", [], bytes(8)),
    "infinite": ("F32", [1], f32(inf)), "near": ("BF16", [3], bf16(1, 2, 3)), "same": ("U8", [1], b"x"),
    "shape": ("U8", [2, 1], b"xy"), "unknown": ("F32", [3], f32(nan, 1, nan)), "zero": ("F32", [1], f32(0))})
write("tuned.safetensors", {
    "cast": ("F32", [2], f32(1, 2.5)), "far": ("F32", [2, 2], f32(1, 2, 30, -4)),
    "infinite": ("F32", [1], f32(1)), "near": ("BF16", [3], bf16(1, 2, 3.015625)), "new\x1b": ("I64", [1], bytes(8)),
    "same": ("U8", [1], b"x"), "shape": ("U8", [1, 2], b"xy"), "unknown": ("F32", [3], f32(nan, nan, 1)),
    "zero": ("F32", [1], f32(-0.0))})
PYTHON
}
make_pair
run diff base.safetensors base.safetensors
run diff base.safetensors tuned.safetensors
run_json diff base.safetensors tuned.safetensors --include 'inf*' --include near --include gone --json
run diff base.safetensors tuned.safetensors --include same --quiet
run diff base.safetensors tuned.safetensors --include nothing
# Layouts: B is taken as it is, unless a layout is asked for.
make_checkpoint mixtral hub
run convert hub runtime --to runtime --quiet
run diff runtime hub
run diff runtime hub --to runtime
run diff runtime hub --mapping mixtral --json
make_checkpoint holed holed
run diff runtime holed --to runtime
run diff hub holed
run diff hub absent
run diff hub
