"""Writes the tables of this folder from gguf-py's packed codebooks.

    python3 make_grids.py        (needs the package gguf 0.19.0)

gguf-py keeps a codebook as a hex string: an entry's elements ascending, each an index into the short list of values that
the codebook has, in two or four bits. Two bytes of it are one entry, and one u16 here.
"""
import pathlib

from gguf import quants

TABLES = [
    ("iq1", quants.IQ1_S, 2, 8),
    ("iq2_xxs", quants.IQ2_XXS, 2, 8),
    ("iq2_xs", quants.IQ2_XS, 2, 8),
    ("iq2_s", quants.IQ2_S, 2, 8),
    ("iq3_xxs", quants.IQ3_XXS, 4, 4),
    ("iq3_s", quants.IQ3_S, 4, 4),
]

for name, source, bits, elements in TABLES:
    packed = bytes.fromhex(source.grid_hex.decode())
    words = [packed[at] | packed[at + 1] << 8 for at in range(0, len(packed), 2)]
    assert (len(words), elements) == source.grid_shape
    values = ", ".join(str(value) for value in source.grid_map)
    lines = [", ".join(f"0x{word:04x}" for word in words[at : at + 12]) for at in range(0, len(words), 12)]
    text = f"""//! Codebook {name}: {len(words)} entries of {elements} elements. From gguf 0.19.0 (`gguf.quants.{source.__name__}.grid_hex`) by `make_grids.py`.

use super::Grid;

/// Element j of an entry has bits {bits}j to {bits}j + {bits - 1}.
pub const {name.upper()}: Grid<{len(words)}, {elements}> = Grid {{ values: &[{values}], words: WORDS }};

const WORDS: &[u16; {len(words)}] = &[
""" + "".join(f"    {line},\n" for line in lines) + "];\n"
    pathlib.Path(__file__).with_name(f"{name}.rs").write_text(text)
