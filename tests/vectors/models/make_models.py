"""Tiny models of every architecture and variant, and their logits from two implementations outside this repository.

    python3 make_models.py PEER FOLDER
PEER is the peer command (`logits MODEL 0 OUT.f32 ID...`, keys and values as f32); FOLDER takes the GGUF files, written
by gguf-py. Writes NAME.json for each model: metadata keys, tensors, ids, rows of logits by the NumPy forward pass below
and by the peer, and controls: keys whose other value must give other logits. Weights follow from a tensor's name and
shape (`values`), so that a reader makes them again. Never run it against Kiln.
"""
import json
import pathlib
import subprocess
import sys

import gguf
import numpy as np

N_VOCAB, N_FF, N_IDS = 48, 96, 40
ROWS = [0, 1, 5, 9, 16, 24, 33, 39]
here = pathlib.Path(__file__).parent
peer, folder = sys.argv[1], pathlib.Path(sys.argv[2])


# ---- weights -----------------------------------------------------------------------------------------------------

def values(name, shape):
    """Value i: the high 24 bits of a mix of FNV-1a(name) and i, spread evenly over a range that the shape sets."""
    seed = 0xCBF29CE484222325
    for byte in name.encode():
        seed = (seed ^ byte) * 0x100000001B3 % 2**64
    with np.errstate(over="ignore"):
        x = np.arange(np.prod(shape), dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x ^= x >> np.uint64(31)
    unit = (x >> np.uint64(40)).astype(np.float32) / np.float32(2**24) - np.float32(0.5)
    if name == "rope_freqs.weight":  # from 1 to 8, as Llama 3.1 has them
        value = np.float32(4.5) + np.float32(7) * unit
    elif name.endswith("norm.weight"):
        value = np.float32(1) + np.float32(0.5) * unit
    elif name.endswith(".bias"):
        value = unit
    else:
        value = np.float32(np.sqrt(np.float32(12) / np.float32(shape[-1]))) * unit
    return value.reshape(shape)


IDS = [int(x) for x in np.abs(values("ids", (N_IDS,))) * 1e6 % N_VOCAB]


# ---- models ------------------------------------------------------------------------------------------------------

def model(
    arch, keys, controls, n_head=2, n_head_kv=1, head_dim=64, n_embd=64, n_layer=2, factors=False, own_head=False,
    peer_arch=None,
):
    prefixed = {
        "context_length": 64, "block_count": n_layer, "embedding_length": n_embd, "feed_forward_length": N_FF,
        "attention.head_count": n_head, "attention.head_count_kv": n_head_kv, "attention.key_length": head_dim,
        "attention.value_length": head_dim, "attention.layer_norm_rms_epsilon": 1e-6, "vocab_size": N_VOCAB, **keys,
    }
    shapes = {"token_embd.weight": (N_VOCAB, n_embd), "output_norm.weight": (n_embd,)}
    if factors:
        shapes["rope_freqs.weight"] = (head_dim // 2,)
    if own_head:
        shapes["output.weight"] = (N_VOCAB, n_embd)
    n_q, n_kv = n_head * head_dim, n_head_kv * head_dim
    for layer in range(n_layer):
        names = {
            "attn_norm.weight": (n_embd,), "attn_q.weight": (n_q, n_embd), "attn_k.weight": (n_kv, n_embd),
            "attn_v.weight": (n_kv, n_embd), "attn_output.weight": (n_embd, n_q), "ffn_norm.weight": (n_embd,),
            "ffn_gate.weight": (N_FF, n_embd), "ffn_up.weight": (N_FF, n_embd), "ffn_down.weight": (n_embd, N_FF),
        }
        if arch == "qwen2":
            names |= {"attn_q.bias": (n_q,), "attn_k.bias": (n_kv,), "attn_v.bias": (n_kv,)}
        if arch in ("qwen3", "gemma3"):
            names |= {"attn_q_norm.weight": (head_dim,), "attn_k_norm.weight": (head_dim,)}
        if arch in ("gemma2", "gemma3"):
            names |= {"post_attention_norm.weight": (n_embd,), "post_ffw_norm.weight": (n_embd,)}
        shapes |= {f"blk.{layer}.{name}": shape for name, shape in names.items()}
    return {
        "keys": {"general.architecture": arch, **{f"{arch}.{key}": value for key, value in prefixed.items()}},
        "tensors": shapes,
        "controls": [[f"{arch}.{key}", value] for key, value in controls.items()],
        "peer_arch": peer_arch or arch,
    }


YARN = {
    "rope.freq_base": 500.0, "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
    "rope.scaling.original_context_length": 16,
}
GEMMA = {"attention.sliding_window": 8, "rope.freq_base": 1e6}
MODELS = {
    "llama": model("llama", {}, {"rope.freq_base": 500.0, "attention.layer_norm_rms_epsilon": 0.1}),
    "llama-own-head": model("llama", {}, {}, n_head_kv=2, own_head=True),
    "llama-rope-factors": model("llama", {"rope.freq_base": 500.0}, {"rope.freq_base": 400.0}, factors=True),
    "llama-rope-linear": model(
        "llama", {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0},
        {"rope.scaling.type": "none", "rope.scaling.factor": 3.0}),
    "llama-rope-yarn": model("llama", YARN, {
        "rope.scaling.type": "linear", "rope.scaling.factor": 2.0, "rope.scaling.original_context_length": 32,
        "rope.scaling.attn_factor": 0.75}),
    # The peer reads these keys for another architecture with the same layers.
    "llama-rope-yarn-betas": model(
        "llama",
        YARN | {
            "rope.scaling.original_context_length": 256, "rope.scaling.yarn_beta_fast": 4.0,
            "rope.scaling.yarn_beta_slow": 0.5, "rope.scaling.attn_factor": 0.75},
        {"rope.scaling.yarn_beta_fast": 32.0, "rope.scaling.yarn_beta_slow": 1.0}, peer_arch="mistral3"),
    "qwen2": model("qwen2", {"rope.freq_base": 1e6}, {"rope.freq_base": 1e4}, n_embd=128),
    "qwen2-rope-yarn": model("qwen2", YARN, {"rope.scaling.type": "none"}, n_embd=128, own_head=True),
    "qwen3": model("qwen3", {"rope.freq_base": 1e6}, {"rope.freq_base": 1e4}, head_dim=128),
    "qwen3-rope-linear": model(
        "qwen3", {"rope.scaling.type": "linear", "rope.scaling.factor": 2.0}, {"rope.scaling.factor": 1.0}),
    "gemma2": model(
        "gemma2", {"attention.sliding_window": 8, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0},
        {"attention.sliding_window": 9, "attn_logit_softcapping": 0.0, "final_logit_softcapping": 4.0}, n_head_kv=2),
    "gemma3": model(
        "gemma3", GEMMA, {"attention.sliding_window": 7, "rope.freq_base": 1e4, "rope.freq_base_swa": 1e6}, n_layer=7),
    "gemma3-head-256": model(
        "gemma3", GEMMA, {"attention.sliding_window": 9, "attn_logit_softcapping": 2.0}, head_dim=256),
    "gemma3-scaled": model(
        "gemma3",
        GEMMA | {
            "rope.freq_base_swa": 500.0, "attention.sliding_window_pattern": 2, "rope.scaling.type": "linear",
            "rope.scaling.factor": 8.0, "final_logit_softcapping": 3.0},
        {
            "rope.freq_base_swa": 1e4, "attention.sliding_window_pattern": 6, "rope.scaling.factor": 4.0,
            "final_logit_softcapping": 0.0}, n_layer=4),
}


def write(path, keys, shapes, arch):
    writer = gguf.GGUFWriter(path, arch)
    for key, value in keys.items():
        if key == "general.architecture":
            continue
        key = key.replace(keys["general.architecture"], arch, 1)
        {str: writer.add_string, int: writer.add_uint32, float: writer.add_float32}[type(value)](key, value)
    writer.add_tokenizer_model("none")
    for name, shape in shapes.items():
        writer.add_tensor(name, values(name, shape))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# ---- the forward pass --------------------------------------------------------------------------------------------

def frequencies(get, weights, n_rot, base):
    """Angle per position of each pair, and what cosine and sine are multiplied by."""
    plain = base ** (-np.arange(0, n_rot, 2) / n_rot)
    if "rope_freqs.weight" in weights:
        plain = plain / weights["rope_freqs.weight"]
    kind, factor = get("rope.scaling.type", "none"), get("rope.scaling.factor", 1.0)
    magnitude = get("rope.scaling.attn_factor", 1.0)
    if kind == "none":
        return plain, magnitude
    if kind == "linear":
        return plain / factor, magnitude
    original = get("rope.scaling.original_context_length", get("context_length"))

    def pair_that_turns(times):  # arXiv:2309.00071, section 3.2
        return n_rot * np.log(original / (times * 2 * np.pi)) / (2 * np.log(base))

    low = max(0, np.floor(pair_that_turns(get("rope.scaling.yarn_beta_fast", 32.0))))
    high = min(n_rot - 1, np.ceil(pair_that_turns(get("rope.scaling.yarn_beta_slow", 1.0))))
    keep = 1 - np.clip((np.arange(n_rot // 2) - low) / max(0.001, high - low), 0, 1)
    return plain / factor * (1 - keep) + plain * keep, magnitude * (1 + 0.1 * np.log(factor))


def forward(keys, shapes):
    arch = keys["general.architecture"]
    get = lambda key, default=None: keys.get(f"{arch}.{key}", default)
    weights = {name: values(name, shape).astype(np.float64) for name, shape in shapes.items()}
    gemma = arch.startswith("gemma")
    n_head, n_head_kv, hd = get("attention.head_count"), get("attention.head_count_kv"), get("attention.key_length")
    eps = get("attention.layer_norm_rms_epsilon")
    norm = lambda x, w: x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weights[w]
    n = len(IDS)
    position = np.arange(n)

    def rotate(x, theta, magnitude):
        angle = position[:, None] * theta
        c, s = (np.cos(angle) * magnitude)[:, None], (np.sin(angle) * magnitude)[:, None]
        if arch == "llama":
            a, b = x[..., 0::2], x[..., 1::2]
            return np.stack([a * c - b * s, a * s + b * c], -1).reshape(x.shape)
        a, b = x[..., :hd // 2], x[..., hd // 2:]
        return np.concatenate([a * c - b * s, a * s + b * c], -1)

    everywhere = frequencies(get, weights, hd, get("rope.freq_base", 10000.0))
    nearby = (get("rope.freq_base_swa", 10000.0) ** (-np.arange(0, hd, 2) / hd), 1.0)
    pattern = get("attention.sliding_window_pattern", {"gemma2": 2, "gemma3": 6}.get(arch))
    past = position[:, None] - position[None]
    x = weights["token_embd.weight"][IDS]
    if gemma:
        x = x * np.sqrt(get("embedding_length"))
    for layer in range(get("block_count")):
        p = f"blk.{layer}."
        h = norm(x, p + "attn_norm.weight")
        q, k, v = (h @ weights[f"{p}attn_{c}.weight"].T + weights.get(f"{p}attn_{c}.bias", 0) for c in "qkv")
        q, k, v = q.reshape(n, n_head, hd), k.reshape(n, n_head_kv, hd), v.reshape(n, n_head_kv, hd)
        if p + "attn_q_norm.weight" in weights:
            q, k = norm(q, p + "attn_q_norm.weight"), norm(k, p + "attn_k_norm.weight")
        local = gemma and layer % pattern < pattern - 1
        rope = nearby if local and arch == "gemma3" else everywhere
        q, k = rotate(q, *rope), rotate(k, *rope)
        k, v = np.repeat(k, n_head // n_head_kv, 1), np.repeat(v, n_head // n_head_kv, 1)
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(hd)
        if cap := get("attn_logit_softcapping"):
            scores = cap * np.tanh(scores / cap)
        hidden = (past < 0) | (past >= get("attention.sliding_window") if local else False)
        scores = np.where(hidden, -np.inf, scores)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
        o = np.einsum("hqk,khd->qhd", scores, v).reshape(n, -1) @ weights[p + "attn_output.weight"].T
        if gemma:
            o = norm(o, p + "post_attention_norm.weight")
        x = x + o
        h = norm(x, p + "ffn_norm.weight")
        gate, up = h @ weights[p + "ffn_gate.weight"].T, h @ weights[p + "ffn_up.weight"].T
        if gemma:
            gate = 0.5 * gate * (1 + np.tanh(np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3)))
        else:
            gate = gate / (1 + np.exp(-gate))
        o = (gate * up) @ weights[p + "ffn_down.weight"].T
        if gemma:
            o = norm(o, p + "post_ffw_norm.weight")
        x = x + o
    head = weights.get("output.weight", weights["token_embd.weight"])
    logits = norm(x, "output_norm.weight") @ head.T
    if cap := get("final_logit_softcapping"):
        logits = cap * np.tanh(logits / cap)
    return logits


def main():
    for name, model in MODELS.items():
        path, out = folder / f"{name}.gguf", folder / f"{name}.f32"
        write(path, model["keys"], model["tensors"], model["peer_arch"])
        subprocess.run([peer, "logits", path, "0", out, *map(str, IDS)], check=True, capture_output=True)
        theirs = np.fromfile(out, np.float32).reshape(N_IDS, N_VOCAB)
        ours = forward(model["keys"], model["tensors"])
        print(f"{name}: largest logit {np.abs(ours).max():.2f}, NumPy and the peer differ by {np.abs(ours - theirs).max():.1e}")
        rounded = lambda logits: [[round(float(x), 5) for x in logits[row]] for row in ROWS]
        record = {**model, "ids": IDS, "rows": ROWS, "numpy": rounded(ours), "peer": rounded(theirs)}
        lines = ",\n".join(f" {json.dumps(key)}: {json.dumps(value)}" for key, value in record.items())
        (here / f"{name}.json").write_text("{\n" + lines + "\n}\n")


main()
