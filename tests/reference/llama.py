"""A Llama and a Mixtral from their papers, in PyTorch, as a second opinion on ours.

    llama.py make DIR llama|mixtral    writes a small model with random weights, every tensor of them, as a
                                       Hugging Face directory
    llama.py check DIR IDS OUT         compares OUT, written by tests/tools/dl-grad for the same model and the
                                       ids in IDS, with logits, loss and every gradient computed here in double
                                       precision; prints the largest relative difference of each kind

Touvron et al. 2023 (2302.13971): RMSNorm before attention and feed-forward, rotary embeddings (in the order
of Hugging Face: channel j turns with j + D/2), SwiGLU. Ainslie et al. 2023 (2305.13245): groups of queries
share keys and values. Jiang et al. 2024 (2401.04088): the softmax over the K best experts weighs them.
Fedus et al. 2022 (2101.03961): load-balancing loss, here of each sequence by itself, as dl-model(5) has it.
"""
import json
import math
import random
import struct
import sys

LIMIT = 1e-4
COMMON = {"vocab_size": 40, "hidden_size": 24, "intermediate_size": 20, "num_hidden_layers": 2,
          "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 64,
          "rms_norm_eps": 1e-5, "rope_theta": 500.0, "hidden_act": "silu", "torch_dtype": "float32"}
KINDS = {
    "llama": dict(COMMON, architectures=["LlamaForCausalLM"], model_type="llama", tie_word_embeddings=False,
                  attention_bias=False, mlp_bias=False),
    "mixtral": dict(COMMON, architectures=["MixtralForCausalLM"], model_type="mixtral", tie_word_embeddings=True,
                    num_local_experts=5, num_experts_per_tok=2, router_aux_loss_coef=0.02, sliding_window=None),
}


def shapes(c):
    """Name and shape of every tensor, as dl-model(5) orders them."""
    C, F, D = c["hidden_size"], c["intermediate_size"], c["head_dim"]
    q, kv = c["num_attention_heads"] * D, c["num_key_value_heads"] * D
    yield "model.embed_tokens.weight", (c["vocab_size"], C)
    for n in range(c["num_hidden_layers"]):
        at = f"model.layers.{n}."
        yield at + "input_layernorm.weight", (C,)
        yield at + "self_attn.q_proj.weight", (q, C)
        yield at + "self_attn.k_proj.weight", (kv, C)
        yield at + "self_attn.v_proj.weight", (kv, C)
        yield at + "self_attn.o_proj.weight", (C, q)
        yield at + "post_attention_layernorm.weight", (C,)
        if c["model_type"] == "mixtral":
            yield at + "block_sparse_moe.gate.weight", (c["num_local_experts"], C)
            for e in range(c["num_local_experts"]):
                for w, shape in (("w1", (F, C)), ("w3", (F, C)), ("w2", (C, F))):
                    yield f"{at}block_sparse_moe.experts.{e}.{w}.weight", shape
        else:
            yield at + "mlp.gate_proj.weight", (F, C)
            yield at + "mlp.up_proj.weight", (F, C)
            yield at + "mlp.down_proj.weight", (C, F)
    yield "model.norm.weight", (C,)
    if not c["tie_word_embeddings"]:
        yield "lm_head.weight", (c["vocab_size"], C)


def make(directory, kind):
    draw = random.Random(kind)
    header, data = {}, b""
    for name, shape in shapes(KINDS[kind]):
        n = math.prod(shape)
        mean, spread = (1, 0.2) if len(shape) == 1 else (0, 1 / math.sqrt(shape[1]))
        values = struct.pack(f"<{n}f", *(draw.gauss(mean, spread) for _ in range(n)))
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(directory + "/model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)
    with open(directory + "/config.json", "w", encoding="ascii") as f:
        json.dump(KINDS[kind], f)


def load(directory, torch):
    with open(directory + "/config.json", encoding="ascii") as f:
        config = json.load(f)
    with open(directory + "/model.safetensors", "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = bytearray(f.read())
    weights = {}
    for name, shape in shapes(config):
        begin, end = header[name]["data_offsets"]
        weights[name] = torch.frombuffer(data[begin:end], dtype=torch.float32).reshape(shape).double()
        weights[name].requires_grad_()
    return config, weights


def forward(c, w, ids, torch):
    """ids (B, T) -> logits (B, T, V), and the load-balancing loss, the mean of layers and sequences."""
    B, T = ids.shape
    H, K, D = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
    silu = torch.nn.functional.silu
    angle = torch.arange(T).double()[:, None] * c["rope_theta"] ** (-torch.arange(0, D, 2).double() / D)
    cos, sin = angle.cos(), angle.sin()  # (T, D/2)
    future = torch.full((T, T), -math.inf, dtype=torch.double).triu(1)

    def norm(x, weight):
        return weight * x / (x.pow(2).mean(-1, keepdim=True) + c["rms_norm_eps"]).sqrt()

    def heads(x, n):  # (B, T, n*D) -> (B, n, T, D)
        return x.reshape(B, T, n, D).transpose(1, 2)

    def turn(x):
        a, b = x[..., :D // 2], x[..., D // 2:]
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    def attention(x, at):
        q = turn(heads(x @ w[at + "q_proj.weight"].T, H))
        k = turn(heads(x @ w[at + "k_proj.weight"].T, K)).repeat_interleave(H // K, 1)
        v = heads(x @ w[at + "v_proj.weight"].T, K).repeat_interleave(H // K, 1)
        p = (q @ k.transpose(2, 3) / math.sqrt(D) + future).softmax(-1)
        return (p @ v).transpose(1, 2).reshape(B, T, H * D) @ w[at + "o_proj.weight"].T

    def experts(x, at):
        E, chosen = c["num_local_experts"], c["num_experts_per_tok"]
        p = (x @ w[at + "gate.weight"].T).softmax(-1)  # (B, T, E)
        best, which = p.topk(chosen, -1)
        best = best / best.sum(-1, keepdim=True)
        out = torch.zeros_like(x)
        for e in range(E):
            up = silu(x @ w[f"{at}experts.{e}.w1.weight"].T) * (x @ w[f"{at}experts.{e}.w3.weight"].T)
            share = (best * (which == e)).sum(-1, keepdim=True)
            out = out + share * (up @ w[f"{at}experts.{e}.w2.weight"].T)
        load = torch.nn.functional.one_hot(which, E).double().sum(2).mean(1)  # (B, E)
        return out, E * (load * p.mean(1)).sum(-1).mean()

    x, balance = w["model.embed_tokens.weight"][ids], 0
    for n in range(c["num_hidden_layers"]):
        at = f"model.layers.{n}."
        x = x + attention(norm(x, w[at + "input_layernorm.weight"]), at + "self_attn.")
        m = norm(x, w[at + "post_attention_layernorm.weight"])
        if c["model_type"] == "mixtral":
            y, loss = experts(m, at + "block_sparse_moe.")
            balance = balance + loss / c["num_hidden_layers"]
        else:
            y = silu(m @ w[at + "mlp.gate_proj.weight"].T) * (m @ w[at + "mlp.up_proj.weight"].T)
            y = y @ w[at + "mlp.down_proj.weight"].T
        x = x + y
    head = w["model.embed_tokens.weight"] if c["tie_word_embeddings"] else w["lm_head.weight"]
    return norm(x, w["model.norm.weight"]) @ head.T, balance


def compare(what, ours, reference):
    """The largest difference against the largest value."""
    error = ((ours.double() - reference).abs().max() / reference.abs().max()).item()
    print(f"{what} {error:.1e}")
    return error <= LIMIT


def check(directory, ids_file, out_file):
    import torch
    c, w = load(directory, torch)
    with open(ids_file, encoding="ascii") as f:
        ids = torch.tensor([[int(word) for word in line.split()] for line in f])  # (B, T+1)
    with open(out_file, "rb") as f:
        out = bytearray(f.read())
    T, V = ids.shape[1] - 1, c["vocab_size"]
    loss = struct.unpack_from("<d", out)[0]
    values = torch.frombuffer(out[8:], dtype=torch.float32)
    logits, balance = forward(c, w, ids[:, :-1], torch)
    mean = torch.nn.functional.cross_entropy(logits.reshape(-1, V), ids[:, 1:].reshape(-1))
    (mean + c.get("router_aux_loss_coef", 0) * balance).backward()
    fine = compare("loss", torch.tensor([loss]), mean.detach())
    fine &= compare("logits", values[:T * V].reshape(T, V), logits[0].detach())
    at = T * V
    for name, weight in w.items():
        fine &= compare("gradient of " + name, values[at:at + weight.numel()].reshape(weight.shape), weight.grad)
        at += weight.numel()
    if at != values.numel():
        sys.exit("llama.py: dl-grad wrote %d values, not %d" % (values.numel(), at))
    if not fine:
        sys.exit("llama.py: differences above %g" % LIMIT)


if __name__ == "__main__":
    {"make": make, "check": check}[sys.argv[1]](*sys.argv[2:])
