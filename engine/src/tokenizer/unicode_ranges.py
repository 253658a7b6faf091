"""Writes unicode_ranges.rs: runs of code points that are letters (L*), numbers (N*) or marks (M*).

Run with a Python whose unicodedata is Unicode 15.1 (3.13) so that the table stays the one the vectors were made with:
    python3.13 unicode_ranges.py > unicode_ranges.rs
"""
import sys
import unicodedata

CLASSES = {"L": 1, "N": 2, "M": 3}
if unicodedata.unidata_version != "15.1.0":
    sys.exit(f"expected Unicode 15.1.0, this Python has {unicodedata.unidata_version}")
runs, last = [], None
for code in range(0x110000):
    kind = CLASSES.get(unicodedata.category(chr(code))[0], 0)
    if kind != last:
        runs.append(code << 2 | kind)
        last = kind
print("//! Unicode 15.1 general categories as runs, written by `unicode_ranges.py`; do not edit by hand.")
print()
print("/// Starts of runs in ascending order, as `code_point << 2 | class`; the class holds until the next start.")
print("/// Classes: 0 neither, 1 letter (L*), 2 number (N*), 3 mark (M*).")
print("#[rustfmt::skip]")
print(f"pub(super) static RUNS: [u32; {len(runs)}] = [")
for at in range(0, len(runs), 12):
    print("    " + " ".join(f"{run:#x}," for run in runs[at : at + 12]))
print("];")
