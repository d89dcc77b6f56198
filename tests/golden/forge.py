"""forge DIRECTORY: a second writer of sealed files, from dl-frame(5) alone, for tests/golden/make.

Writes the key pair golden.key and golden.pub, good/other.ckpt, and bad/*: files with good seals
that say what no honest writer would.
"""
import base64
import hashlib
import os
import struct
import sys

from read_frame import BASE, DATA, FINAL, HEADER, INDEX, L, P, digest, times

SEED = hashlib.sha256(b"everybody knows this key: trust it in tests only").digest()


# ---- Ed25519 signing ----

def packed(p):
    z = pow(p[2], P - 2, P)
    x, y = p[0] * z % P, p[1] * z % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def secret():
    h = hashlib.sha512(SEED).digest()
    a = int.from_bytes(h[:32], "little") & (1 << 254) - 8 | 1 << 254
    return a, h[32:]


A, PREFIX = secret()
PUBLIC = packed(times(A, BASE))


def number(*parts):
    return int.from_bytes(hashlib.sha512(b"".join(parts)).digest(), "little") % L


def sign(message):
    r = number(PREFIX, message)
    big_r = packed(times(r, BASE))
    return big_r + ((r + number(big_r, PUBLIC, message) * A) % L).to_bytes(32, "little")


# ---- files ----

def zstd(raw, size=None):
    """A frame of blocks as they are; at most 128 KiB each."""
    out = bytes.fromhex("28b52ffda0") + struct.pack("<I", len(raw) if size is None else size)
    for i in range(0, len(raw), 131072):
        block = raw[i:i + 131072]
        out += struct.pack("<I", len(block) << 3 | (i + 131072 >= len(raw)))[:3] + block
    return out


class File:
    def __init__(self):
        self.bytes = bytes.fromhex("89444c530d0a1a0a") + PUBLIC
        self.c, self.number, self.marks, self.entries = digest(b"dl-file-1", PUBLIC), 0, b"", b""
        self.counts = {HEADER: 0, DATA: 0, INDEX: 0}

    def frame(self, kind, raw, flags=0, payload=None, size=None):
        payload = zstd(raw) if payload is None else payload
        prelude = struct.pack("<BBHII", kind, flags, 0, len(payload), len(raw) if size is None else size)
        h = digest(b"dl-frame-1", struct.pack("<Q", self.number), prelude, payload)
        offset, self.number = len(self.bytes), self.number + 1
        self.before, self.c = self.c, digest(self.c, h)
        self.bytes += prelude + payload + sign(self.c)
        if kind in self.counts:
            self.counts[kind] += 1
        if kind in (HEADER, INDEX):
            self.marks += struct.pack("<Q", offset) + h
        return offset, h

    def header(self, *lines, version="format 1"):
        self.frame(HEADER, "".join(s + "\n" for s in (version,) + lines).encode(), flags=1)
        return self

    def data(self, tensor, first, n, elements):
        offset, h = self.frame(DATA, struct.pack("<IIQII", tensor, 0, first, n, 0) + elements)
        self.entries += struct.pack("<IIQQ", tensor, n, first, offset) + h
        return self

    def end(self):
        if self.entries:
            self.frame(INDEX, self.entries)
        offset, _ = self.frame(FINAL, struct.pack("<QQQ", *self.counts.values()) + self.marks)
        self.bytes += struct.pack("<QQ", self.number - 1, offset) + self.before
        return self


def planes(values):
    b = struct.pack(f"<{len(values)}f", *values)
    return b"".join(b[k::4] for k in range(4))


def good():
    f = File().header("kind checkpoint", "note by another writer", "tensor a f32 5 f32", "tensor b u16 2x1 raw")
    f.data(0, 0, 2, planes([1, -2])).data(0, 2, 3, planes([0.5, float("inf"), 1e-40]))
    return f.data(1, 0, 2, struct.pack("<HH", 7, 65535)).end()


def bad():
    """Name, file."""
    one = "tensor a f32 1 f32"
    yield "newer-format", File().header("kind of tomorrow", version="format 2").end()
    yield "shape-wraps", File().header("tensor a f32 4294967296x4294967296 f32").end()
    yield "name-is-a-path", File().header("tensor ../../etc/passwd f32 1 f32").end()
    yield "name-of-300", File().header("tensor " + "n" * 300 + " f32 1 f32").end()
    yield "key-twice", File().header("kind a", "kind b").end()
    yield "unknown-encoding", File().header("tensor a f32 1 f99").end()
    f = File().header(one)
    f.frame(DATA, b"", payload=bytes.fromhex("28b52ffde0") + struct.pack("<Q", 1 << 40) + b"\1\0\0", size=28)
    yield "zstd-terabyte", f.end()
    f = File().header(one)
    f.frame(DATA, b"", payload=bytes.fromhex("28b52ffde06c06060663636363"), size=28)
    yield "zstd-bomb", f.end()
    f = File().header(one)
    f.frame(9, b"x")
    yield "unknown-kind", f.end()
    yield "value-missing", File().header("tensor a f32 2 f32").data(0, 0, 1, planes([1])).end()
    yield "value-twice", File().header(one).data(0, 0, 1, planes([1])).data(0, 0, 1, planes([1])).end()
    yield "slice-too-long", File().header(one).data(0, 0, 2, planes([1, 2])).end()
    f = File().header(one).data(0, 0, 1, planes([1]))
    f.entries = bytes([f.entries[0] ^ 1]) + f.entries[1:]
    yield "index-lies", f.end()


def write(directory, name, content):
    path = os.path.join(directory, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(content)


def main():
    out = sys.argv[1]
    write(out, "golden.pub", b"dl-key-1 " + base64.b64encode(PUBLIC) + b" golden\n")
    write(out, "golden.key", b"dl-secret-1 " + base64.b64encode(SEED) + b" golden\n")
    os.chmod(os.path.join(out, "golden.key"), 0o600)
    write(out, "good/other.ckpt", good().bytes)
    for name, f in bad():
        write(out, "bad/" + name, f.bytes)


if __name__ == "__main__":
    main()
