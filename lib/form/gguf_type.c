/* Values of tensors in gguf.h, to bytes. */
#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "base/say.h"
#include "form/gguf.h"
#include "form/half.h"

#define BLOCK_BYTES (2 + GGUF_BLOCK)

static const char *const names[GGUF_TYPES] = { "f32", "f16", "bf16", "q8_0" };

const char *gguf_type_name(enum gguf_type t)
{
	return names[t];
}

int gguf_type_parse(const char *text, enum gguf_type *out)
{
	char shown[80];

	for (int i = 0; i < GGUF_TYPES; i++)
		if (strcmp(text, names[i]) == 0) {
			*out = (enum gguf_type)i;
			return 0;
		}
	say_escape(shown, sizeof shown, text);
	return err_set(ERR_USAGE, "type '%s': f32, f16, bf16 or q8_0", shown);
}

uint64_t gguf_row_bytes(enum gguf_type t, uint64_t n)
{
	switch (t) {
	case GGUF_F32: return 4 * n;
	case GGUF_Q8_0: return n / GGUF_BLOCK * BLOCK_BYTES;
	default: return 2 * n;
	}
}

static int too_large(enum gguf_type t, size_t i, float x)
{
	return err_set(ERR_DATA, "element %zu is %g, more than %s can hold", i, (double)x, names[t]);
}

static float scale_value(uint32_t h)
{
	uint8_t bytes[2];
	float x;

	le16_put(bytes, (uint16_t)h);
	half_f16_get(&x, bytes, 1);
	return x;
}

/* f16 of the scale of a block, rounded up where need be, so that no value lies beyond 127 of it. */
static uint32_t scale_of(float most)
{
	const float scale = most / 127;
	uint8_t bytes[2];
	uint32_t h;

	half_f16_put(bytes, &scale, 1, NULL);
	h = le16_get(bytes);
	return scale_value(h) * 127 < most ? h + 1 : h;
}

static int encode_block(uint8_t *restrict out, const float *restrict in)
{
	float most = 0, inverse;
	uint32_t h;

	for (int i = 0; i < GGUF_BLOCK; i++)
		most = fabsf(in[i]) > most ? fabsf(in[i]) : most;
	h = scale_of(most);
	if (h >= 0x7c00) /* infinite */
		return ERR_DATA;
	inverse = h ? 1 / scale_value(h) : 0;
	le16_put(out, (uint16_t)h);
	for (int i = 0; i < GGUF_BLOCK; i++) {
		const float x = in[i] * inverse;

		out[2 + i] = (uint8_t)(int8_t)(int)(x + (x < 0 ? -0.5f : 0.5f));
	}
	return 0;
}

static int encode_blocks(uint8_t *out, const float *in, size_t n)
{
	for (size_t i = 0; i < n; i += GGUF_BLOCK, out += BLOCK_BYTES)
		if (encode_block(out, in + i) < 0)
			return too_large(GGUF_Q8_0, i, in[i]);
	return 0;
}

int gguf_encode(enum gguf_type t, uint8_t *out, const float *in, size_t n)
{
	size_t lost = 0, first = 0;

	switch (t) {
	case GGUF_F32:
		for (size_t i = 0; i < n; i++)
			le32_put(out + 4 * i, float_bits(in[i]));
		return 0;
	case GGUF_F16: lost = half_f16_put(out, in, n, &first); break;
	case GGUF_BF16: lost = half_bf16_put(out, in, n, &first); break;
	default: return encode_blocks(out, in, n);
	}
	return lost ? too_large(t, first, in[first]) : 0;
}
