"""Logits of Kiln and of another engine on one model, each against exact ones (exact.py), for bench/records.

    python3 compare.py MODEL.gguf OUT.json [--n-ids N] [--seed S] [--kiln KILN] [--peer PEER] [--brief]

Feeds N ids, drawn by the seed, as a prompt and one by one. Says for every way the root mean square and the largest
difference over all logits, the same after each row's mean is taken off (which no sampler sees), in how many rows the
best token is a best one of the exact logits, and in how many it is behind that by more than a tenth of the spread,
which is the root mean square of the exact logits around their rows' means. The controls: logits one step off, and one
logit of ten thousand moved by the spread. --brief leaves out what shows Kiln's error apart: the ways without packed
integer products and with f32 keys and values, and the cost of f16 itself.
"""
import argparse
import json
import os
import pathlib
import subprocess
import tempfile
import time

import numpy as np

import exact
from exact import F64, array, host, to, xp


def measured(found, reference):
    """Figures of logits [rows, n_vocab] against the reference's last rows of that count."""
    reference = reference[-found.shape[0] :]
    centered = reference - reference.mean(-1, keepdims=True)
    spread = float((centered * centered).mean()) ** 0.5
    difference = found - reference
    shifted = difference - difference.mean(-1, keepdims=True)
    chosen = xp.take_along_axis(reference, found.argmax(-1)[:, None], -1) if not exact.TORCH else (
        reference.gather(-1, found.argmax(-1)[:, None]))
    behind = host(xp.amax(reference, -1) - chosen[:, 0])
    rms = float((difference * difference).mean()) ** 0.5
    return {
        "rms": rms,
        "rms_share_of_spread": rms / spread,
        "rms_around_row_means": float((shifted * shifted).mean()) ** 0.5,
        "largest": float(abs(difference).max()),
        "rows": len(behind),
        "best_is_best": int((behind == 0).sum()),
        "best_is_far_behind": int((behind > spread / 10).sum()),
    }


def controls(reference):
    spread = float(((reference - reference.mean(-1, keepdims=True)) ** 2).mean()) ** 0.5
    step = xp.concatenate([reference[1:], reference[:1]], 0)
    moved = array(np.arange(reference.shape[-1]) % 10_000 == 0)
    return {
        "one_step_off": measured(step, reference),
        "one_logit_of_10000_moved": measured(reference + spread * to(moved, F64), reference),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("--n-ids", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kiln")
    parser.add_argument("--peer")
    parser.add_argument("--brief", action="store_true")
    a = parser.parse_args()
    folder = tempfile.TemporaryDirectory()
    here = pathlib.Path(folder.name)
    weights = exact.Weights(a.model, False)
    n_vocab = weights.tensors["token_embd.weight"].shape[1]
    ids = [int(i) for i in np.random.default_rng(a.seed).integers(0, n_vocab, a.n_ids)]
    (here / "ids").write_text(" ".join(map(str, ids)))

    start = time.time()
    reference = exact.logits(a.model, ids)
    centered = reference - reference.mean(-1, keepdims=True)
    result = {
        "model": pathlib.Path(a.model).name,
        "n_ids": a.n_ids,
        "seed": a.seed,
        "reference": f"exact.py in f64 on {'a GPU, PyTorch ' + xp.__version__ if exact.TORCH else 'NumPy'}",
        "logits_rms": float((reference * reference).mean()) ** 0.5,
        "logits_spread": float((centered * centered).mean()) ** 0.5,
        "controls": controls(reference),
        "ways": {},
    }
    ways = result["ways"]

    def save():
        result["seconds"] = time.time() - start
        pathlib.Path(a.out).write_text(json.dumps(result, indent=1) + "\n")

    if not a.brief:
        ways["f16 weights, inputs, keys and values, else exact"] = measured(exact.logits(a.model, ids, True), reference)
    save()

    def run(name, command, environment=None):
        out = here / "out.f32"
        done = subprocess.run(
            [part.replace("OUT", str(out)) for part in command], capture_output=True, text=True,
            env=os.environ | (environment or {}))
        if done.returncode != 0:
            ways[name] = {"command": command, "failed": (done.stderr or done.stdout)[-300:]}
        else:
            found = to(array(np.fromfile(out, "<f4").reshape(-1, n_vocab)), F64)
            ways[name] = {"command": [pathlib.Path(c).name for c in command], **measured(found, reference)}
        save()

    ids_file = str(here / "ids")
    if a.kiln:
        kiln = [a.kiln, "logits", a.model, "--ids-file", ids_file, "--out", "OUT", "--ctx", str(max(a.n_ids, 512))]
        run("kiln as a prompt", kiln)
        variants = {"": []}
        if not a.brief:
            variants |= {
                ", f32 keys and values": ["--kv-type", "f32"],
                ", float products": ["--without", "dot4"],
                ", float products, f32 keys and values": ["--without", "dot4", "--kv-type", "f32"],
            }
        for name, more in variants.items():
            run("kiln one by one" + name, [*kiln, "--forced", "1", *more])
    if a.peer:
        run("peer one by one", [a.peer, "forced", a.model, "99", "OUT", "1", "@" + ids_file])
        run("peer as a prompt", [a.peer, "logits", a.model, "99", "OUT", "@" + ids_file])
        if not a.brief:
            plain = {"GGML_VK_DISABLE_COOPMAT": "1", "GGML_VK_DISABLE_COOPMAT2": "1",
                     "GGML_VK_DISABLE_INTEGER_DOT_PRODUCT": "1", "GGML_VK_DISABLE_F16": "1"}
            peer = [a.peer, "forced", a.model, "99", "OUT", "1", "@" + ids_file]
            run("peer one by one, float products", peer, plain)
    for name, way in ways.items():
        if "failed" in way:
            print(f"{result['model']}: {name}: failed: {way['failed']}")
        else:
            print(f"{result['model']}: {name}: rms {way['rms']:.5f}, {way['rms_share_of_spread']:.6f} of spread "
                  f"{result['logits_spread']:.3f}, largest {way['largest']:.3f}, best in {way['best_is_best']} of "
                  f"{way['rows']} rows, far behind in {way['best_is_far_behind']}")


if __name__ == "__main__":
    main()
