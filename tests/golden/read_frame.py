"""read_frame FILE [PUBLIC-KEY-IN-HEX]: a second reader of sealed files, written from dl-frame(5) alone.

Checks everything that a reader from front to back checks and prints identity and content, and
each line of the header; a file that is not good ends it with a message and status 1. Slow, and
needs only Python's own modules and the zstd program.
"""
import hashlib
import struct
import subprocess
import sys

MAGIC = bytes.fromhex("89444c530d0a1a0a")
HEADER, DATA, INDEX, FINAL = 1, 2, 3, 4
SIZES = {"u8": 1, "u16": 2, "u32": 4, "f32": 4}
STORED = {"raw": 1, "f32": 4, "f32r": 8, "bf16": 2}  # bytes an element; raw: times the size


class Bad(Exception):
    pass


def need(condition, why):
    if not condition:
        raise Bad(why)


def digest(*parts):
    return hashlib.blake2b(b"".join(parts), digest_size=32).digest()


# ---- Ed25519, RFC 8032 section 5.1, in extended coordinates ----

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P


def add(p, q):
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % P, (p[1] + p[0]) * (q[1] + q[0]) % P
    c, d = 2 * p[3] * q[3] * D % P, 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def times(n, p):
    q = (0, 1, 1, 0)
    while n:
        if n & 1:
            q = add(q, p)
        p = add(p, p)
        n >>= 1
    return q


def same(p, q):
    return (p[0] * q[2] - q[0] * p[2]) % P == 0 and (p[1] * q[2] - q[1] * p[2]) % P == 0


def point(b):
    y = int.from_bytes(b, "little")
    sign, y = y >> 255, y & (1 << 255) - 1
    need(y < P, "point is not canonical")
    x2 = (y * y - 1) * pow(D * y * y + 1, P - 2, P)
    x = pow(x2, (P + 3) // 8, P)
    if (x * x - x2) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    need((x * x - x2) % P == 0 and (x or not sign), "not a point")
    x = P - x if x & 1 != sign else x
    return x, y, 1, x * y % P


BASE = point((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))


def verify(seal, message, key):
    r, a, s = point(seal[:32]), point(key), int.from_bytes(seal[32:], "little")
    k = int.from_bytes(hashlib.sha512(seal[:32] + key + message).digest(), "little") % L
    need(s < L, "signature is not canonical")
    return same(times(s, BASE), add(r, times(k, a)))


# ---- the file ----

def unzstd(payload, raw):
    done = subprocess.run(["zstd", "-dcq"], input=payload, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    need(done.returncode == 0 and len(done.stdout) == raw, "payload does not unpack to its size")
    return done.stdout


class Frames:
    """Frame by frame, verified: kind, flags, offset, h, raw payload."""

    def __init__(self, f):
        need(f.read(8) == MAGIC, "not a dl file")
        self.f, self.signer, self.number, self.at = f, f.read(32), 0, 40
        need(len(self.signer) == 32, "truncated")
        self.c = digest(b"dl-file-1", self.signer)

    def next(self):
        prelude = self.f.read(12)
        need(len(prelude) == 12, "truncated")
        kind, flags, zero, stored, raw = struct.unpack("<BBHII", prelude)
        need(1 <= raw <= 1 << 20 and 1 <= stored <= 1052672, "sizes out of range")
        payload, seal = self.f.read(stored), self.f.read(64)
        need(len(payload) == stored and len(seal) == 64, "truncated")
        h = digest(b"dl-frame-1", struct.pack("<Q", self.number), prelude, payload)
        self.before, self.c = self.c, digest(self.c, h)
        need(verify(seal, self.c, self.signer), f"frame {self.number}: seal does not verify")
        need(zero == 0 and flags == (flags & 1 if kind == HEADER else 0), "unknown flags")
        offset, self.at, self.number = self.at, self.at + 12 + stored + 64, self.number + 1
        return kind, flags, offset, h, unzstd(payload, raw)


class Tensor:
    def __init__(self, line):
        _, self.name, self.dtype, self.shape, self.encoding = line.split(" ")
        self.count = 1
        for n in [] if self.shape == "scalar" else self.shape.split("x"):
            self.count *= int(n)
        need(0 < self.count <= 1 << 48, "shape")
        self.element = STORED[self.encoding] * (SIZES[self.dtype] if self.encoding == "raw" else 1)

    def title(self):
        return f"{self.name} {self.dtype} {self.shape}\n".encode()

    def decode(self, n, b):
        """Values and remainders as they enter the content digest."""
        if self.encoding == "raw":
            return b, b""
        planes = [b[k * n:(k + 1) * n] for k in range(self.element)]
        if self.encoding == "bf16":
            planes = [bytes(n), bytes(n)] + planes
        whole = bytearray(4 * n)
        rest = bytearray(4 * n if self.encoding == "f32r" else 0)
        for k in range(4):
            whole[k::4] = planes[k]
            if rest:
                rest[k::4] = planes[4 + k]
        return bytes(whole), bytes(rest)


class Content:
    def __init__(self):
        self.values = hashlib.blake2b(digest_size=32)
        self.rests = hashlib.blake2b(digest_size=32)
        self.rest = False

    def add(self, values, rests):
        self.values.update(values)
        self.rests.update(rests)

    def slice(self, t, n, b):
        value, rest = t.decode(n, b)
        self.add(value, rest)
        self.rest = self.rest or any(x & 0x7FFFFFFF for x in struct.unpack(f"<{len(rest) // 4}I", rest))

    def end(self):
        v = self.values.digest()
        return digest(v, self.rests.digest()) if self.rest else v


def read(f, key=None):
    frames, text, marks, entries, index, content = Frames(f), b"", b"", b"", b"", Content()
    need(key is None or frames.signer == key, "signed by somebody else")
    counts = {HEADER: 0, DATA: 0, INDEX: 0}
    kind = flags = 0
    while not (kind == HEADER and flags & 1):
        kind, flags, offset, h, raw = frames.next()
        need(kind == HEADER, "header frame expected")
        text += raw
        need(text.startswith(b"format 1\n"), "newer format")
        counts[HEADER] += 1
        marks += struct.pack("<Q", offset) + h
    lines = text.decode("latin-1").split("\n")[1:-1]
    tensors = [Tensor(s) for s in lines if s.startswith("tensor ")]
    tensor = first = 0
    kind, flags, offset, h, raw = frames.next()
    while kind == DATA:
        number, zero, start, n, zero2 = struct.unpack("<IIQII", raw[:24])
        need((number, zero, start, zero2) == (tensor, 0, first, 0), "slice out of place")
        t = tensors[tensor]
        need(0 < n <= t.count - first and len(raw) == 24 + n * t.element, "slice has another size")
        need(n * max(t.element, SIZES[t.dtype]) <= 1 << 20, "slice is too large")
        if first == 0:
            content.add(t.title(), t.title())
        content.slice(t, n, raw[24:])
        first += n
        if first == t.count:
            tensor, first = tensor + 1, 0
        entries += struct.pack("<IIQQ", number, n, start, offset) + h
        counts[DATA] += 1
        kind, flags, offset, h, raw = frames.next()
    need(tensor == len(tensors), "tensors are not complete")
    while kind == INDEX:
        index += raw
        need(len(raw) % 56 == 0, "entry in two frames")
        counts[INDEX] += 1
        marks += struct.pack("<Q", offset) + h
        kind, flags, offset, h, raw = frames.next()
    need(index == entries, "index")
    need(kind == FINAL and raw == struct.pack("<QQQ", counts[HEADER], counts[DATA], counts[INDEX]) + marks, "final")
    need(f.read() == struct.pack("<QQ", frames.number - 1, offset) + frames.before, "trailer")
    return frames.c, content.end(), lines


def main():
    key = bytes.fromhex(sys.argv[2]) if len(sys.argv) > 2 else None
    try:
        with open(sys.argv[1], "rb") as f:
            identity, content, lines = read(f, key)
    except (Bad, KeyError, ValueError, IndexError, struct.error) as e:
        sys.exit(f"{sys.argv[1]}: {e or type(e).__name__}")
    print("identity", identity.hex())
    print("content", content.hex())
    print("\n".join(lines))


if __name__ == "__main__":
    main()
