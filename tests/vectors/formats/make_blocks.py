"""Writes NAME.json for each format: rows of blocks and what gguf-py makes of them; never run it against our own decoder.

    python3 make_blocks.py [NAME...]        (needs the package gguf 0.19.0 and numpy)

A row is whole blocks in hex. `values` are its dequantized f32 in little-endian hex, given for the first rows so that a
difference can be read; every row has `crc32`, that of the same bytes, NaN written as 7fc00000 on both sides.
"""
import json
import pathlib
import sys
import zlib

import gguf
import numpy as np

SEED = 20261129
RANDOM_ROWS = 208
ROWS_WITH_VALUES = 24
# Byte offsets of the f16 fields of a block, and elements in a row of formats with blocks of one element.
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q8_0": [0], "Q6_K": [208]}
ROW = 16
# Zero, the smallest and largest subnormal, the smallest normal, one, the largest, infinity, NaN; then their negatives.
EDGE_HALVES = [0x0000, 0x0001, 0x03FF, 0x0400, 0x3C00, 0x7BFF, 0x7C00, 0x7E00]
EDGE_HALVES += [bits | 0x8000 for bits in EDGE_HALVES]


def rows(name, n_bytes):
    """Adversarial rows first, then random ones."""
    random = np.random.default_rng([SEED, *name.encode()])
    yield np.zeros(n_bytes, np.uint8)
    yield np.full(n_bytes, 0xFF, np.uint8)
    yield np.full(n_bytes, 0x80, np.uint8)
    yield np.full(n_bytes, 0x7F, np.uint8)
    for bits in EDGE_HALVES:
        row = random.integers(0, 256, n_bytes, np.uint8)
        for at in HALVES.get(name, range(0, n_bytes, 4)):
            row[at : at + 2] = [bits & 0xFF, bits >> 8]
        yield row
    for _ in range(RANDOM_ROWS):
        row = random.integers(0, 256, n_bytes, np.uint8)
        for at in HALVES.get(name, []):
            # Scales such as files hold, either sign; the patterns above cover the rest.
            row[at : at + 2] = np.frombuffer(np.float16(random.normal(0, 0.05)).tobytes(), np.uint8)
        yield row


def value_bytes(row, kind):
    with np.errstate(all="ignore"):
        values = gguf.quants.dequantize(row, kind).astype("<f4").reshape(-1)
    return np.where(np.isnan(values), np.frombuffer(b"\0\0\xc0\x7f", "<f4"), values).tobytes()


def vectors(name):
    kind = gguf.GGMLQuantizationType[name]
    elements, n_bytes = gguf.GGML_QUANT_SIZES[kind]
    found = []
    for row in rows(name, n_bytes * (ROW if elements == 1 else 1)):
        values = value_bytes(row, kind)
        entry = {"blocks": row.tobytes().hex(), "crc32": f"{zlib.crc32(values):08x}"}
        if len(found) < ROWS_WITH_VALUES:
            entry["values"] = values.hex()
        found.append(entry)
    return {
        "provenance": {
            "package": "gguf 0.19.0",
            "numpy": np.__version__,
            "function": "gguf.quants.dequantize",
            "made_by": "make_blocks.py",
            "seed": SEED,
        },
        "name": name,
        "type_id": int(kind),
        "elements": elements,
        "bytes": n_bytes,
        "rows": found,
    }


for name in sys.argv[1:] or ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q8_0", "Q6_K"]:
    written = vectors(name)
    lines = ",\n".join(json.dumps(row) for row in written.pop("rows"))
    text = json.dumps(written, indent=1)[:-2] + ',\n "rows": [\n' + lines + "\n]}\n"
    pathlib.Path(__file__).with_name(f"{name.lower()}.json").write_text(text)
