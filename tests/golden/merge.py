"""merge BASE STATE RULE RATE MOMENTUM DELTA...: a second merge, written from dl-outer(5) alone.

RULE is direct or rda, with +routed for experts weighed so. Prints the key `merge`, the global step, and every new value and momentum in hexadecimal. STATE is - for
none. Judges nothing: all deltas are taken. Slow. "merge CHECKPOINT STATE" prints the same of files that
were merged already.
"""
import hashlib
import math
import re
import struct
import sys

import read_frame

UNIT, BLOCK = 245760, 1024
DIRECT = ("model.embed_tokens.weight", "lm_head.weight")


class Values(read_frame.Content):
    """Values and remainders of each tensor, and how its slices lie."""

    last = None

    def __init__(self):
        super().__init__()
        self.value, self.rest_of, self.lengths = {}, {}, {}
        Values.last = self

    def slice(self, t, n, b):
        super().slice(t, n, b)
        value, rest = t.decode(n, b)
        self.value.setdefault(t.name, []).extend(struct.unpack(f"<{n}f", value))
        self.rest_of.setdefault(t.name, []).extend(struct.unpack(f"<{n}f", rest) if rest else [0.0] * n)
        self.lengths.setdefault(t.name, []).append(n)


class File:
    def __init__(self, path):
        read_frame.Content = Values
        with open(path, "rb") as f:
            self.id, _, lines = read_frame.read(f)
        self.key = dict(s.split(" ", 1) for s in lines if not s.startswith("tensor "))
        self.data = Values.last


def single(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def sum2(x):
    lane = [0.0] * 8
    for i, v in enumerate(x):
        lane[i % 8] += v * v
    return ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]))


def norm(f, name):
    x = [v + r for v, r in zip(f.data.value[name], f.data.rest_of[name])]
    cuts, at, total = {0}, 0, 0.0
    for n in f.data.lengths[name]:
        at += n
        cuts.add(at)
    for unit in range(0, len(x), UNIT):
        end = min(unit + UNIT, len(x))
        inside, piece = 0.0, sorted(c for c in cuts | {unit, end} if unit <= c <= end)
        for a, b in zip(piece, piece[1:]):
            inside += sum2(x[a:b])
        total += inside
    return math.sqrt(total)


def weighted_sum(answers, c, name):
    s = [-0.0] * len(answers[0].data.value[name])
    for f, k in zip(answers, c):
        s = [a + k * v for a, v in zip(s, f.data.value[name])]
    return s


def length(s):
    total = 0.0
    for unit in range(0, len(s), UNIT):
        inside = 0.0
        for block in range(unit, min(unit + UNIT, len(s)), BLOCK):
            inside += sum2(s[block:min(block + BLOCK, unit + UNIT)])
        total += inside
    return math.sqrt(total)


def merged(answers, share, rule, name):
    """p, q and scale of one tensor."""
    if len(answers) == 1:
        return answers[0].data.value[name], answers[0].data.rest_of[name], 1.0
    scale, s = 1.0, None
    if rule == "rda" and name not in DIRECT:
        norms = [norm(f, name) for f in answers]
        s = weighted_sum(answers, [a / n if n else 0.0 for a, n in zip(share, norms)], name)
        mean = 0.0
        for a, n in zip(share, norms):
            mean += a * n
        n = length(s)
        if mean == 0:
            scale = 0.0
        elif n < 1e-6:
            s = None
        else:
            scale = mean / n
    if s is None:
        s = weighted_sum(answers, share, name)
    p = [single(x) for x in s]
    return p, [single(x - y) for x, y in zip(s, p)], scale


def shares(tokens, answers):
    """None where all are 0."""
    weight = [t * (t / int(f.key["steps"])) for t, f in zip(tokens, answers)]
    total = 0.0
    for w in weight:
        total += w
    return [w / total for w in weight] if total else None


def expert(name):
    m = re.fullmatch(r"model\.layers\.(\d+)\.block_sparse_moe\.experts\.(\d+)\.w[123]\.weight", name)
    return m and m.groups()


def routed(f):
    """Tokens of the expert of each tensor that has one; None where the file does not say."""
    if "routed" not in f.key:
        return None
    counts, last, out = iter(f.key["routed"].split(" ")), None, {}
    for name in filter(expert, f.data.value):
        if expert(name) != last:
            n, last = int(next(counts)), expert(name)
        out[name] = n
    return out


def show(checkpoint, state):
    print("merge", checkpoint.key["merge"] if checkpoint.key["merge"] == state.key["merge"] else "differs")
    print("step", checkpoint.key["step"])
    for name, x in checkpoint.data.value.items():
        for i, v in enumerate(state.data.value[name]):
            print(name, i, x[i].hex(), v.hex())


def main():
    if len(sys.argv) == 3:
        return show(File(sys.argv[1]), File(sys.argv[2]))
    base, (rule, _, experts) = File(sys.argv[1]), sys.argv[3].partition("+")
    eta, mu = float(sys.argv[4]), float(sys.argv[5])
    prior = None if sys.argv[2] == "-" else File(sys.argv[2])
    answers = sorted((File(path) for path in sys.argv[6:]), key=lambda f: f.id)
    share = shares([int(f.key["tokens"]) for f in answers], answers)
    counts = [routed(f) for f in answers]
    h = hashlib.blake2b(b"dl-merge-1\0" + base.id + (prior.id if prior else bytes(32)), digest_size=32)
    h.update(rule.encode() + b"\0" + (b"routed\0" if experts else b""))
    h.update(struct.pack("<dd", eta, mu) + b"".join(f.id for f in answers))
    steps = 0.0
    for a, f in zip(share, answers):
        steps += a * int(f.key["steps"])
    print("merge", h.hexdigest())
    print("step", int(base.key.get("step", 0)) + int(steps + 0.5))
    for name, x in base.data.value.items():
        by = shares([c[name] for c in counts], answers) if experts and expert(name) and all(counts) else None
        p, q, scale = merged(answers, by or share, rule, name)
        v = prior.data.value[name] if prior else [0.0] * len(x)
        for i in range(len(x)):
            d, r = scale * p[i], scale * q[i]
            nv = mu * v[i] + (d + r)
            nx = (x[i] - eta * d) - eta * r
            if mu != 0:
                nx -= eta * (mu * nv)
            print(name, i, single(nx).hex(), single(nv).hex())


main()
