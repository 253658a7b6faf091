"""Writes NAME.json for each format: blocks and what gguf-py (or who else knows the format) makes of them; never run it against our own decoder.

    python3 -m venv target/vectors && target/vectors/bin/pip install gguf==0.19.0 numpy==2.4.6
    target/vectors/bin/python tests/vectors/formats/make_blocks.py [NAME...]
    target/vectors/bin/python tests/vectors/formats/make_blocks.py --row NAME NUMBER

A row is whole blocks in hex, chosen to be hard, with its dequantized values, f32 in little-endian hex. `hashes` are those
of 2000 random rows, which `random_row` makes from nothing but their number, one of 16 digits after the other. NaN counts
as 7fc00000 on both sides. `--row` writes nothing and prints the values of one of them, each behind its bits, where hashes
alone say that ours differ. `quantized` is the way back, for formats that the host writes: values and the block that gguf-py
makes of them, chosen ones and the hashes of 2000 random ones.
"""
import collections
import ctypes
import importlib
import json
import os
import pathlib
import sys

import gguf
import numpy as np

FORMATS = """F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ3_XXS IQ3_S
IQ4_NL IQ4_XS TQ1_0 TQ2_0 MXFP4 NVFP4""".split()
# Byte offsets of the f16 fields of a block; of IQ1_M's, which is in pieces, the u16 with its sign and exponent.
HALVES = {"Q4_1": [0, 2], "Q5_1": [0, 2], "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2]}
HALVES |= {"Q6_K": [208], "IQ1_M": [54], "TQ1_0": [52], "TQ2_0": [64], "MXFP4": [], "NVFP4": []}
# Scales of one byte: their offsets, and the smallest, the largest, those beside a change of rule, one.
BYTE_SCALES = {
    "MXFP4": ([0], [0, 1, 2, 3, 127, 128, 253, 254, 255]),
    "NVFP4": ([0, 1, 2, 3], [0, 1, 7, 8, 0x38, 0x77, 0x78, 0x7E, 0x7F, 0x80, 0x81, 0xFE, 0xFF]),
}
# Rows of formats with blocks of one element have this many.
ROW = 16
# Zero, the smallest and largest subnormal, the smallest normal, one, the largest, infinity, NaN; then their negatives.
EDGE_HALVES = [0x0000, 0x0001, 0x03FF, 0x0400, 0x3C00, 0x7BFF, 0x7C00, 0x7E00]
EDGE_HALVES += [bits | 0x8000 for bits in EDGE_HALVES]
RANDOM_ROWS = 2000
# Formats that gguf-py lacks, by name. The formula is somebody else's code, run here. A formula typed in from the same
# byte map as the format's file is no second source; for a format of one's own, the program that writes it is one.
# `source` is "package and version: function"; `function(blocks)` takes bytes `[n, bytes]`, gives f32 `[n, elements]`.
# What it needs is looked for when it is called, so that where it is missing other formats are made all the same. A C
# library is built outside the repository, and a variable of the environment says where it is. A Python package is
# installed beside gguf; a program that is in no package is a file in this folder, as is the one that writes a format of
# one's own.
#     OTHERS = {
#         "Q6_0": Other(133, 32, 26, "ik_llama.cpp 0243356: dequantize_row_q6_0",
#                       of_library("IK_LLAMA", "dequantize_row_q6_0", 32)),
#         "Q7_X": Other(0x7E57_0107, 32, 30, "q7_x.py of 2026-11-30: read", of_module("q7_x", "read")),
#     }
Other = collections.namedtuple("Other", "kind elements bytes source function")


def of_library(variable, function, elements):
    """A C function `(const void *blocks, float *values, int64_t n_values)` of the library that a variable names."""

    def decode(blocks):
        if variable not in os.environ:
            sys.exit(f"{function}: set {variable} to the path of the library that has it")
        blocks = np.ascontiguousarray(blocks)
        values = np.zeros((len(blocks), elements), np.float32)
        called = getattr(ctypes.CDLL(os.environ[variable]), function)
        called.restype = None
        called(ctypes.c_void_p(blocks.ctypes.data), ctypes.c_void_p(values.ctypes.data), ctypes.c_int64(values.size))
        return values

    return decode


def of_module(module, function):
    """A function of a Python module, installed or in this folder."""
    return lambda blocks: getattr(importlib.import_module(module), function)(blocks)


OTHERS = {}
QUANTIZED = ["Q4_0", "Q8_0"]


def halves_of(name, n_bytes, elements):
    return range(0, n_bytes, 4) if elements == 1 else HALVES.get(name, [0])


def set_half(row, name, at, bits):
    """An f16 field becomes `bits`."""
    if name == "IQ1_M":
        for word in range(4):
            byte = at - 6 + 2 * word + 1
            row[byte] = row[byte] & 0x0F | (bits >> (4 * word) & 0x0F) << 4
    else:
        row[at : at + 2] = [bits & 0xFF, bits >> 8]


def random_words(kind, number, n_words):
    """Words of random row `number`: SplitMix64 of a counter of type id, row and word."""
    # A type id of more than 16 bits loses those above, as in the test that makes the rows again.
    counter = np.uint64((kind << 48 | number << 16) & 0xFFFF_FFFF_FFFF_FFFF) + np.arange(n_words, dtype=np.uint64)
    with np.errstate(over="ignore"):
        z = (counter + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def random_row(kind, number, n_bytes, halves):
    """The words' little-endian bytes; odd rows have scales such as files hold, exponents from −7 to 0."""
    row = random_words(kind, number, -(-n_bytes // 8)).astype("<u8").view(np.uint8)[:n_bytes].copy()
    if number % 2 == 1:
        for at in halves:
            row[at + 1] = row[at + 1] & 0x9F | 0x20
    return row


def hard_rows(name, kind, elements, n_bytes):
    for fill in (0x00, 0xFF, 0x80, 0x7F):
        yield np.full(n_bytes, fill, np.uint8)
    halves = halves_of(name, n_bytes, elements)
    for n, bits in enumerate(EDGE_HALVES if halves else []):
        row = random_row(kind, RANDOM_ROWS + n, n_bytes, [])
        for at in halves:
            set_half(row, name, at, bits)
        yield row
    # One, the smallest and the largest scale on the smallest and the largest quants.
    for bits in (0x3C00, 0xBC00, 0x0001, 0x7BFF, 0xFBFF) if halves and elements > 1 else ():
        for fill in (0x00, 0xFF):
            row = np.full(n_bytes, fill, np.uint8)
            for at in halves:
                set_half(row, name, at, bits)
            yield row
    places, scales = BYTE_SCALES.get(name, ([], []))
    for n, scale in enumerate(scales):
        row = random_row(kind, RANDOM_ROWS + n, n_bytes, [])
        row[places] = scale
        yield row
    if not halves:
        for n in range(8):
            yield random_row(kind, RANDOM_ROWS + len(scales) + n, n_bytes, [])


def called(name):
    """The format's name as it is written above or in gguf-py: `zc4` is `ZC4`."""
    known = [*FORMATS, *OTHERS, *gguf.GGMLQuantizationType.__members__]
    return next((other for other in known if other.upper() == name.upper()), name)


def outside(name):
    """Who else decodes the format."""
    if name in OTHERS:
        return OTHERS[name]
    if name not in gguf.GGMLQuantizationType.__members__:
        sys.exit(f"gguf-py has no {name}: give it a row in OTHERS, whose comment says what counts as outside")
    kind = gguf.GGMLQuantizationType[name]
    decode = lambda rows: gguf.quants.dequantize(rows, kind)
    return Other(int(kind), *gguf.GGML_QUANT_SIZES[kind], "gguf 0.19.0: gguf.quants.dequantize", decode)


def value_bits(rows, function):
    """The bits of the values of each row."""
    with np.errstate(all="ignore"):
        values = function(rows).astype("<f4").reshape(len(rows), -1)
    return np.where(np.isnan(values), np.uint32(0x7FC00000), values.view("<u4"))


def hashes(bits):
    """FNV-1a of 64 bits, a value's bits (or a byte) at a time, of each row."""
    found = np.full(len(bits), 0xCBF29CE484222325, np.uint64)
    with np.errstate(over="ignore"):
        for column in bits.T:
            found = (found ^ column.astype(np.uint64)) * np.uint64(0x100000001B3)
    return [f"{row:016x}" for row in found]


def random_values(kind, number):
    """32 values, exponents from −7 to 0, from the words of a type id that no format has."""
    bits = random_words(0x4000 | kind, number, 16).astype("<u8").view("<u4")
    return (bits & np.uint32(0x83FFFFFF) | np.uint32(0x3C000000)).view("<f4")


def hard_values():
    ramp = np.arange(32, dtype=np.float32)
    for scale in (0.0, -0.0, 1.0, -1.0, 65504.0, 3e4 * 127, 1e30, 1e-3, 1e-5, 1e-7, 1e-30):
        yield np.full(32, scale, np.float32)
        yield (ramp - 17) * np.float32(scale / 16)
    # Ties: exactly between two quants of Q8_0, then of Q4_0; and two values of largest magnitude, either sign first.
    yield np.where(ramp == 31, np.float32(127), ramp - np.float32(15.5))
    yield np.where(ramp == 31, np.float32(-8), np.float32(0.5) * (ramp % 16) - np.float32(4.25))
    for first in (-8, 8):
        yield np.where(ramp == 3, np.float32(first), np.where(ramp == 20, np.float32(-first), ramp / 8))
    yield np.where(ramp == 9, np.float32(-3.5), np.float32(0))


def quantized(kind):
    def blocks(rows):
        with np.errstate(over="ignore"):
            return gguf.quants.quantize(rows, kind).reshape(len(rows), -1)

    hard = np.array(list(hard_values()))
    random = np.array([random_values(int(kind), number) for number in range(RANDOM_ROWS)])
    digits = hashes(blocks(random))
    return {
        "rows": [
            {"blocks": block.tobytes().hex(), "values": row.astype("<f4").tobytes().hex()}
            for row, block in zip(hard, blocks(hard))
        ],
        "hashes": ["".join(digits[at : at + 8]) for at in range(0, len(digits), 8)],
    }


def random_fields(name, elements, block_bytes):
    """Bytes of a random row, and where it has f16 fields."""
    n_bytes = block_bytes * (ROW if elements == 1 else 1)
    return n_bytes, [] if elements == 1 else halves_of(name, n_bytes, elements)


def print_row(name, number):
    """The values of one random row."""
    kind, elements, block_bytes, _, decode = outside(name)
    row = random_row(kind, number, *random_fields(name, elements, block_bytes))
    for bits in value_bits(row[np.newaxis], decode)[0]:
        print(f"{bits:08x} {np.uint32(bits).view('<f4')}")


def vectors(name):
    kind, elements, block_bytes, source, decode = outside(name)
    package, colon, function = source.partition(": ")
    if not (package and colon and function):
        sys.exit(f'{name}: its source is "{source}", not "package and version: function"')
    n_bytes, halves = random_fields(name, elements, block_bytes)
    hard = np.array(list(hard_rows(name, kind, elements, n_bytes)))
    random = np.array([random_row(kind, number, n_bytes, halves) for number in range(RANDOM_ROWS)])
    found = [
        {"blocks": row.tobytes().hex(), "values": bits.astype("<u4").tobytes().hex()}
        for row, bits in zip(hard, value_bits(hard, decode))
    ]
    digits = hashes(value_bits(random, decode))
    return {
        "provenance": {
            "package": package,
            "numpy": np.__version__,
            "function": function,
            "made_by": "make_blocks.py",
        },
        "name": name,
        "type_id": kind,
        "elements": elements,
        "bytes": block_bytes,
        "halves": list(halves),
        "rows": found,
        "hashes": ["".join(digits[at : at + 8]) for at in range(0, len(digits), 8)],
    }


def lists(written):
    """A list a key, an entry a line."""
    return ",\n".join(
        f' "{key}": [\n' + ",\n".join(json.dumps(entry) for entry in entries) + "\n]" for key, entries in written.items()
    )


if sys.argv[1:2] == ["--row"]:
    if len(sys.argv) != 4 or not sys.argv[3].isdecimal():
        sys.exit("--row takes a format's name and the number of a random row, such as --row Q8_0 8")
    print_row(called(sys.argv[2]), int(sys.argv[3]))
    sys.exit()
for name in map(called, sys.argv[1:] or [*FORMATS, *OTHERS]):
    written = vectors(name)
    body = lists({key: written.pop(key) for key in ("rows", "hashes")})
    if name in QUANTIZED:
        body += ',\n "quantized": {\n' + lists(quantized(gguf.GGMLQuantizationType[name])) + "\n}"
    halves = written.pop("halves")
    head = json.dumps(written, indent=1)[:-2] + f',\n "halves": {halves},\n'
    path = pathlib.Path(__file__).with_name(f"{name.lower()}.json")
    path.write_text(head + body + "\n}\n")
    rows = body.count('"blocks"')
    print(f"wrote {os.path.relpath(path)}: {name}, {rows} chosen rows and the hashes of {RANDOM_ROWS} random ones")
