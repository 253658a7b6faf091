"""Writes gguf_py.json: a file that gguf-py wrote, in hex; never run it against our own writer.

    python3 make_file.py        (needs the package gguf 0.19.0 and numpy)

Every type of value, arrays of strings, numbers and flags, an alignment of 64, tensors plain and quantized.
"""
import json
import pathlib
import tempfile

import gguf
import numpy as np

SEED = 20261129


def write(path):
    random = np.random.default_rng(SEED)
    w = gguf.GGUFWriter(path, "llama")
    w.add_custom_alignment(64)
    w.add_uint8("a.u8", 200)
    w.add_int8("a.i8", -2)
    w.add_uint16("a.u16", 60000)
    w.add_int16("a.i16", -300)
    w.add_uint32("a.u32", 4000000000)
    w.add_int32("a.i32", -70000)
    w.add_uint64("a.u64", 1 << 40)
    w.add_int64("a.i64", -(1 << 40))
    w.add_float32("a.f32", 0.25)
    w.add_float64("a.f64", 1e-5)
    w.add_bool("a.bool", True)
    w.add_string("a.text", "naïve 火")
    w.add_array("b.texts", ["a", "b c", "ç"])
    w.add_array("b.i32s", [-1, 7])
    w.add_array("b.f32s", [1.5, -2.0])
    w.add_array("b.flags", [True, False])
    w.add_tensor("plain", np.arange(6, dtype=np.float32).reshape(2, 3))
    w.add_tensor("half", random.normal(size=(1, 2, 3)).astype(np.float16))
    for kind in [gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.Q4_1]:
        values = random.normal(size=(2, 64)).astype(np.float32)
        w.add_tensor(kind.name.lower(), gguf.quants.quantize(values, kind), raw_dtype=kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder) / "file.gguf"
    write(path)
    hexed = path.read_bytes().hex()
    tensors = [
        {
            "name": t.name,
            "shape": [int(n) for n in reversed(t.shape)],
            "type_id": int(t.tensor_type),
            "data": t.data.tobytes().hex(),
        }
        for t in gguf.GGUFReader(path).tensors
    ]
written = {
    "provenance": {
        "package": "gguf 0.19.0",
        "numpy": np.__version__,
        "made_by": "make_file.py",
        "seed": SEED,
    },
    "tensors": tensors,
    "file": [hexed[at : at + 128] for at in range(0, len(hexed), 128)],
}
pathlib.Path(__file__).with_name("gguf_py.json").write_text(json.dumps(written, indent=1) + "\n")
