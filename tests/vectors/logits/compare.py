"""Logits of Kiln and of another engine on one model, each against exact ones (exact.py), for bench/records.

    python3 compare.py FOLDER MODEL.gguf... [--n-ids N] [--seed S] [--kiln KILN] [--peer PEER] [--brief]

Writes FOLDER/MODEL.json for each. Feeds N ids, drawn by the seed, as a prompt and one by one. Says for every way the root mean square and the largest
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
from concurrent.futures import ThreadPoolExecutor

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


class Model:
    """A file, its ids, and the commands that give an engine's logits of them."""

    def __init__(self, path, folder, arguments):
        self.path, self.name, self.a = path, pathlib.Path(path).name, arguments
        self.n_vocab = exact.Weights(path, False).tensors["token_embd.weight"].shape[1]
        drawn = np.random.default_rng(arguments.seed).integers(0, self.n_vocab, arguments.n_ids)
        self.ids = [int(i) for i in drawn]
        self.stem = pathlib.Path(folder) / self.name
        self.ids_file = f"{self.stem}.ids"
        pathlib.Path(self.ids_file).write_text(" ".join(map(str, self.ids)))

    def commands(self):
        """Name, command with OUT for the file to write, and variables."""
        a, listed = self.a, []
        if a.kiln:
            kiln = [a.kiln, "logits", self.path, "--ids-file", self.ids_file, "--out", "OUT"]
            kiln += ["--ctx", str(max(a.n_ids, 512))]
            listed.append(("kiln as a prompt", kiln, {}))
            variants = {"": []}
            if not a.brief:
                variants |= {
                    ", f32 keys and values": ["--kv-type", "f32"],
                    ", float products": ["--without", "dot4"],
                    ", float products, f32 keys and values": ["--without", "dot4", "--kv-type", "f32"],
                }
            for name, more in variants.items():
                listed.append(("kiln one by one" + name, [*kiln, "--forced", "1", *more], {}))
        if a.peer:
            forced = [a.peer, "forced", self.path, "99", "OUT", "1", "@" + self.ids_file]
            listed.append(("peer one by one", forced, {}))
            listed.append(("peer as a prompt", [a.peer, "logits", self.path, "99", "OUT", "@" + self.ids_file], {}))
            if not a.brief:
                features = ("COOPMAT", "COOPMAT2", "INTEGER_DOT_PRODUCT", "F16")
                plain = {f"GGML_VK_DISABLE_{feature}": "1" for feature in features}
                listed.append(("peer one by one, float products", forced, plain))
        return listed

    def run(self, number, command, variables):
        """Logits, or what went wrong."""
        out = pathlib.Path(f"{self.stem}.{number}")
        command = [part.replace("OUT", str(out)) for part in command]
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | variables)
        if done.returncode != 0:
            return (done.stderr or done.stdout)[-300:]
        found = np.fromfile(out, "<f4").reshape(-1, self.n_vocab)
        out.unlink()
        return found

    def compare(self, pool):
        """The figures of every way; the commands run in the pool while the exact logits are computed."""
        commands = self.commands()
        running = [pool.submit(self.run, at, *rest) for at, (_, *rest) in enumerate(commands)]
        reference = exact.logits(self.path, self.ids)
        centered = reference - reference.mean(-1, keepdims=True)
        ways = {}
        if not self.a.brief:
            ways["f16 weights, inputs, keys and values, else exact"] = measured(
                exact.logits(self.path, self.ids, True), reference)
        for (name, command, variables), result in zip(commands, running):
            found = result.result()
            told = {"command": [pathlib.Path(part).name for part in command], **variables}
            ways[name] = told | (
                {"failed": found} if isinstance(found, str) else measured(to(array(found), F64), reference))
        return {
            "model": self.name,
            "n_ids": self.a.n_ids,
            "seed": self.a.seed,
            "reference": f"exact.py in f64 on {'PyTorch ' + xp.__version__ if exact.TORCH else 'NumPy'}",
            "logits_rms": float((reference * reference).mean()) ** 0.5,
            "logits_spread": float((centered * centered).mean()) ** 0.5,
            "controls": controls(reference),
            "ways": ways,
        }


def say(result):
    for name, way in result["ways"].items():
        if "failed" in way:
            print(f"{result['model']}: {name}: failed: {way['failed']}")
            continue
        print(f"{result['model']}: {name}: rms {way['rms']:.5f}, {way['rms_share_of_spread']:.6f} of spread "
              f"{result['logits_spread']:.3f}, largest {way['largest']:.3f}, best in {way['best_is_best']} of "
              f"{way['rows']} rows, far behind in {way['best_is_far_behind']}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--n-ids", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kiln")
    parser.add_argument("--peer")
    parser.add_argument("--brief", action="store_true")
    parser.add_argument("--at-once", type=int, default=1, help="commands that run at the same time")
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(a.at_once) as pool:
        for path in a.models:
            result = Model(path, folder, a).compare(pool)
            say(result)
            out = pathlib.Path(a.folder) / f"{pathlib.Path(path).stem}.json"
            out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
