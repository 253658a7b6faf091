"""Asks the peer for the ids of lines.txt and texts.json; never run it against our own tokenizer.

    python3 make_ids.py PEER FOLDER
PEER is the peer command (`tokenize-lines VOCAB SPECIAL FILE`, `tokenize VOCAB SPECIAL TEXT`); FOLDER holds smollm.gguf,
gpt-2.gguf, llama-bpe.gguf, qwen2.gguf and llama-spm.gguf, and takes llama-spm-no-space.gguf, which is the last with
`tokenizer.ggml.add_space_prefix` false. Writes NAME.plain.ids (literal tokens as plain text, nothing added) and
NAME.special.ids (literal tokens parsed, BOS as the file says): the lines first, then the texts, one row of ids each.
"""
import json
import pathlib
import subprocess
import sys

import gguf

here = pathlib.Path(__file__).parent
peer, folder = sys.argv[1], pathlib.Path(sys.argv[2])


def ask(*arguments):
    return subprocess.run([peer, *map(str, arguments)], check=True, capture_output=True, text=True).stdout


def write_without_space(source, target):
    fields = gguf.GGUFReader(source).fields
    writer = gguf.GGUFWriter(target, "llama")
    for name, field in fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        kind = field.types[0]
        if kind == gguf.GGUFValueType.ARRAY:
            writer.add_array(name, field.contents())
        else:
            writer.add_key_value(name, field.contents(), kind)
    writer.add_add_space_prefix(False)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


write_without_space(folder / "llama-spm.gguf", folder / "llama-spm-no-space.gguf")
for name in ["smollm", "gpt-2", "llama-bpe", "qwen2", "llama-spm", "llama-spm-no-space"]:
    vocabulary = folder / f"{name}.gguf"
    for special, suffix in [(0, "plain"), (1, "special")]:
        rows = ask("tokenize-lines", vocabulary, special, here / "lines.txt")
        for text in json.loads((here / "texts.json").read_text()):
            rows += ask("tokenize", vocabulary, special, text)
        (here / f"{name}.{suffix}.ids").write_text(rows)
