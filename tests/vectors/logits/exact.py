"""Exact logits of a GGUF model, computed apart from Kiln: weights by their formats' formulas, everything after in f64.

    python3 exact.py MODEL.gguf IDS_FILE OUT.f32 [--round-f16]

Runs on a GPU where PyTorch finds one, else on NumPy, through the names that both have. Architectures llama, qwen2, qwen3
and gemma3 without rope scaling. The package gguf reads the file; formats without a formula here go through it too, and
those with one are compared with it on the first rows of every type that a file has. --round-f16 rounds weights, inputs
of products, keys and values to f16: what that class costs on the model. Never changed to agree with Kiln.
"""
import sys
import time

import gguf
import numpy as np

try:
    import torch as xp
    GPU = xp.cuda.is_available()
except ImportError:
    import numpy as xp
    GPU = False
TORCH = xp is not np
F64, F32, F16 = xp.float64, xp.float32, xp.float16
CHECKED_ROWS = 4


def array(values):
    if not TORCH:
        return np.asarray(values)
    values = xp.from_numpy(np.array(values))
    return values.cuda() if GPU else values


def to(x, dtype):
    return x.to(dtype) if TORCH else x.astype(dtype)


def host(x):
    return x.cpu().numpy() if TORCH else x


def half(bytes_):
    """Pairs of bytes along the last axis as f16, widened to f32."""
    return to((bytes_.contiguous() if TORCH else np.ascontiguousarray(bytes_)).view(F16), F32)


def word(x):
    return to(x, xp.int32)


# ---- formats: blocks [n, bytes] of u8 to values [n, elements] of f32 ------------------------------------------------

def q8_0(b):
    q = b[:, 2:].contiguous().view(xp.int8) if TORCH else np.ascontiguousarray(b[:, 2:]).view(np.int8)
    return half(b[:, :2]) * to(q, F32)


def q4_1(b):
    d, m, q = half(b[:, 0:2]), half(b[:, 2:4]), b[:, 4:]
    return d * to(xp.concatenate([q & 15, q >> 4], 1), F32) + m


def k_scales(s):
    """Twelve bytes of 6-bit fields: eight scales and eight minima."""
    low, high, rest = s[:, 0:4], s[:, 4:8], s[:, 8:12]
    scale = xp.concatenate([low & 63, (rest & 15) | ((low >> 6) << 4)], 1)
    minimum = xp.concatenate([high & 63, (rest >> 4) | ((high >> 6) << 4)], 1)
    return to(scale, F32), to(minimum, F32)


def q4_k(b):
    n = b.shape[0]
    scale, minimum = k_scales(b[:, 4:16])
    d, m = half(b[:, 0:2]) * scale, half(b[:, 2:4]) * minimum
    q = b[:, 16:144].reshape(n, 4, 32)
    q = to(xp.stack([q & 15, q >> 4], 2).reshape(n, 8, 32), F32)
    return (d[:, :, None] * q - m[:, :, None]).reshape(n, 256)


def q6_k(b):
    n = b.shape[0]
    low, high = word(b[:, 0:128]).reshape(n, 2, 64), word(b[:, 128:192]).reshape(n, 2, 32)
    low = xp.concatenate([low & 15, low >> 4], 2)
    high = xp.concatenate([(high >> (2 * i)) & 3 for i in range(4)], 2)
    q = to(low + 16 * high - 32, F32).reshape(n, 16, 16)
    scale = b[:, 192:208].contiguous().view(xp.int8) if TORCH else np.ascontiguousarray(b[:, 192:208]).view(np.int8)
    d = half(b[:, 208:210]) * to(scale, F32)
    return (d[:, :, None] * q).reshape(n, 256)


GRID = None


def iq3_s(b):
    global GRID
    if GRID is None:
        gguf.quants.IQ3_S.init_grid()
        GRID = array(np.asarray(gguf.quants.IQ3_S.grid, dtype=np.float32).reshape(512, 4))
    n = b.shape[0]
    bits = array(np.arange(8, dtype=np.int32))
    index, high = word(b[:, 2:66]).reshape(n, 8, 8), word(b[:, 66:74])
    index = index | (((high[:, :, None] >> bits) & 1) << 8)
    sign = 1 - 2 * ((word(b[:, 74:106])[:, :, None] >> bits) & 1).reshape(n, 8, 32)
    scale = word(b[:, 106:110])
    scale = xp.stack([scale & 15, scale >> 4], 2).reshape(n, 8)
    d = half(b[:, 0:2]) * to(1 + 2 * scale, F32)
    return (d[:, :, None] * GRID[to(index, xp.int64)].reshape(n, 8, 32) * to(sign, F32)).reshape(n, 256)


FORMULAS = {"Q8_0": q8_0, "Q4_1": q4_1, "Q4_K": q4_k, "Q6_K": q6_k, "IQ3_S": iq3_s}


class Weights:
    """Tensors of a file, dequantized when they are asked for."""

    def __init__(self, path, round_f16):
        reader = gguf.GGUFReader(path)
        self.keys = {k: f.contents() for k, f in reader.fields.items() if not k.startswith("tokenizer")}
        self.tensors = {t.name: t for t in reader.tensors}
        self.round_f16, self.checked = round_f16, set()

    def values(self, tensor, rows):
        kind, data = tensor.tensor_type.name, tensor.data[rows]
        if kind in ("F32", "F16"):
            return to(array(data), F32)
        formula = FORMULAS.get(kind)
        if formula is None:
            return array(gguf.dequantize(np.asarray(data), tensor.tensor_type))
        block = gguf.GGML_QUANT_SIZES[tensor.tensor_type][1]
        return formula(array(data.reshape(-1, block))).reshape(data.shape[0], -1)

    def __call__(self, name, rows=slice(None)):
        tensor = self.tensors[name]
        kind = tensor.tensor_type
        if kind.name in FORMULAS and kind not in self.checked:
            first = tensor.data[:CHECKED_ROWS]
            theirs = gguf.dequantize(np.asarray(first), kind)
            if not np.array_equal(host(self.values(tensor, slice(CHECKED_ROWS))), theirs):
                raise SystemExit(f"{name}: the formula of {kind.name} is not that of the package gguf")
            self.checked.add(kind)
        values = to(self.values(tensor, rows), F64)
        return rounded(values) if self.round_f16 and len(tensor.shape) > 1 else values

    def __contains__(self, name):
        return name in self.tensors


def rounded(x):
    return to(to(x, F16), F64)


# ---- the forward pass ----------------------------------------------------------------------------------------------

def logits(path, ids, round_f16=False):
    """[n_ids, n_vocab] in f64, ids fed at positions 0 and up."""
    weights = Weights(path, round_f16)
    arch = weights.keys["general.architecture"]
    if arch not in ("llama", "qwen2", "qwen3", "gemma3"):
        raise SystemExit(f"no forward pass for {arch}")

    def key(name, other=None):
        return weights.keys.get(f"{arch}.{name}", other)

    if key("rope.scaling.type", "none") != "none":
        raise SystemExit("no rope scaling here")
    lower = rounded if round_f16 else (lambda x: x)
    n, n_embd, n_head = len(ids), key("embedding_length"), key("attention.head_count")
    n_head_kv = key("attention.head_count_kv", n_head)
    head_dim, eps = key("attention.key_length", n_embd // n_head), key("attention.layer_norm_rms_epsilon")
    theta, window = key("rope.freq_base", 10000.0), key("attention.sliding_window")
    kv_head = array(np.arange(n_head) // (n_head // n_head_kv))
    position = np.arange(n)

    def norm(x, name):
        return x / xp.sqrt((x * x).mean(-1, keepdims=True) + eps) * weights(name)

    def times(x, name):
        y = lower(x) @ weights(name + ".weight").T
        return y + weights(name + ".bias") if name + ".bias" in weights else y

    def turned(x, base):
        angle = position[:, None] * base ** (-np.arange(0, head_dim, 2) / head_dim)
        cos, sin = array(np.cos(angle))[:, None], array(np.sin(angle))[:, None]
        if arch == "llama":
            a, b = x[..., 0::2], x[..., 1::2]
            return xp.stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(x.shape)
        a, b = x[..., : head_dim // 2], x[..., head_dim // 2 :]
        return xp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)

    def attention(x, layer, local):
        p = f"blk.{layer}.attn_"
        heads = ((c, count) for c, count in zip("qkv", (n_head, n_head_kv, n_head_kv)))
        q, k, v = (times(x, p + c).reshape(n, count, head_dim) for c, count in heads)
        if p + "q_norm.weight" in weights:
            q, k = norm(q, p + "q_norm.weight"), norm(k, p + "k_norm.weight")
        base = key("rope.freq_base_swa", 10000.0) if local else theta
        q, k, v = turned(q, base), lower(turned(k, base))[:, kv_head], lower(v)[:, kv_head]
        seen = position[:, None] >= position[None]
        if local:
            seen &= position[:, None] - position[None] < window
        score = xp.einsum("qhd,khd->hqk", q, k) / head_dim**0.5 + array(np.where(seen, 0.0, -np.inf))
        share = xp.exp(score - xp.amax(score, -1, keepdims=True))
        share = share / share.sum(-1, keepdims=True)
        return times(xp.einsum("hqk,khd->qhd", share, v).reshape(n, -1), p + "output")

    def feed_forward(x, layer):
        p = f"blk.{layer}.ffn_"
        gate, up = times(x, p + "gate"), times(x, p + "up")
        if arch == "gemma3":
            gate = 0.5 * gate * (1 + xp.tanh((2 / np.pi) ** 0.5 * (gate + 0.044715 * gate**3)))
        else:
            gate = gate / (1 + xp.exp(-gate))
        return times(gate * up, p + "down")

    x = weights("token_embd.weight", np.asarray(ids))
    if arch == "gemma3":
        x = x * n_embd**0.5
    pattern = key("attention.sliding_window_pattern", 6)
    for layer in range(key("block_count")):
        local = arch == "gemma3" and bool(window) and (layer + 1) % pattern != 0
        for part, before, after in (
            (lambda h: attention(h, layer, local), "attn_norm", "post_attention_norm"),
            (lambda h: feed_forward(h, layer), "ffn_norm", "post_ffw_norm"),
        ):
            y = part(norm(x, f"blk.{layer}.{before}.weight"))
            x = x + (norm(y, f"blk.{layer}.{after}.weight") if f"blk.{layer}.{after}.weight" in weights else y)
    head = "output" if "output.weight" in weights else "token_embd"
    return times(norm(x, "output_norm.weight"), head)


def main():
    arguments = [a for a in sys.argv[1:] if a != "--round-f16"]
    if len(arguments) != 3:
        raise SystemExit(__doc__)
    path, ids, out = arguments
    ids = [int(i) for i in open(ids).read().replace(",", " ").split()]
    start = time.time()
    result = host(logits(path, ids, "--round-f16" in sys.argv)).astype("<f4")
    result.tofile(out)
    print(f"{result.shape[0]} rows of {result.shape[1]} logits in {out}, {time.time() - start:.1f} s")


if __name__ == "__main__":
    main()
