/* tally, content, json: what dl-show says about values. */
#include <float.h>

#include "base/json.h"
#include "form/content.h"
#include "form/tally.h"
#include "unit.h"

static const struct tensor f32 = { "a", DTYPE_F32, ENC_F32, 1, { 6 }, 6 };
static const struct tensor f32r = { "a", DTYPE_F32, ENC_F32R, 1, { 6 }, 6 };
static const struct tensor u16 = { "a", DTYPE_U16, ENC_PLAIN, 1, { 6 }, 6 };

static void test_tally(void)
{
	float value[6] = { NAN, 3, -4, INFINITY, 0, FLT_MAX }, rest[6] = { 0, 0x1p-30f, 0, 0, 0, 0 };
	uint16_t ids[2] = { 65535, 7 };
	struct frame_slice s = { .n = 5, .value = value }, i = { .n = 2, .elements = ids };
	struct tally y = { 0 };

	tally_add(&y, &f32, &s);
	CHECK(y.n == 5 && y.strange == 2 && y.min == -4 && y.max == 3);
	CHECK(tally_mean(&y) == -1.0 / 3 && tally_norm(&y) == 5);
	s.value = value + 5;
	s.n = 1;
	tally_add(&y, &f32, &s); /* squares of the largest float do not overflow */
	CHECK(y.max == FLT_MAX && isfinite(tally_norm(&y)));

	y = (struct tally){ 0 };
	s = (struct frame_slice){ .n = 2, .value = value + 1, .rest = rest + 1 };
	tally_add(&y, &f32r, &s);
	CHECK(y.max == 3 + 0x1p-30);
	y = (struct tally){ 0 };
	tally_add(&y, &u16, &i);
	CHECK(y.min == 7 && y.max == 65535);
	y = (struct tally){ 0 };
	CHECK(isnan(tally_mean(&y)) && tally_norm(&y) == 0);
}

static void test_contrast(void)
{
	float a[5] = { 1, 2, NAN, 0, 5 }, b[5] = { 1, 2.5f, NAN, -0.0f, INFINITY }, tiny[1] = { 0x1p-60f };
	struct frame_slice x = { .n = 5, .value = a }, y = { .n = 5, .value = b };
	struct contrast c = { 0 };

	contrast_add(&c, &f32, &x, 0, &y, 0, 5);
	CHECK(c.n == 5 && c.differ == 2 && c.first == 1 && c.strange == 2);
	CHECK(c.max == 0.5 && contrast_norm(&c) == 0.5);
	CHECK_NEAR(contrast_cosine(&c), 6 / sqrt(5 * 7.25), 1e-15);
	c = (struct contrast){ 0 };
	contrast_add(&c, &f32, &x, 3, &y, 3, 1);
	CHECK(c.differ == 0 && isnan(contrast_cosine(&c)));
	/* a remainder that a double sum would lose still makes a difference */
	c = (struct contrast){ 0 };
	x = y = (struct frame_slice){ .n = 1, .value = a };
	y.rest = tiny;
	contrast_add(&c, &f32r, &x, 0, &y, 0, 1);
	CHECK(c.differ == 1 && c.max == 0x1p-60);
}

static digest content_of(const struct tensor *t, const float *value, const float *rest, uint32_t cut)
{
	struct tensors ts = { (struct tensor *)(uintptr_t)t, 1, 1 };
	struct frame_slice one = { 0, 0, cut, value, rest, NULL };
	struct frame_slice two = { 0, cut, 6 - cut, value + cut, rest ? rest + cut : NULL, NULL };
	struct content c;
	digest d;

	content_init(&c, &ts);
	content_add(&c, &one);
	content_add(&c, &two);
	content_end(&c, &d);
	return d;
}

static int same(digest a, digest b)
{
	return memcmp(&a, &b, sizeof a) == 0;
}

static void test_content(void)
{
	float value[6] = { 1, 2, 3, 4, 5, 6 }, other[6] = { 1, 2, 3, 4, 5, 7 };
	float zero[6] = { 0 }, rest[6] = { 0, 0, 0, 0, 0, 1 };
	digest d = content_of(&f32, value, NULL, 2);
	char hex[65];

	CHECK(same(d, content_of(&f32, value, NULL, 5)));
	CHECK(!same(d, content_of(&f32, other, NULL, 2)));
	CHECK(same(d, content_of(&f32r, value, zero, 3)));
	CHECK(!same(d, content_of(&f32r, value, rest, 3)));
	CHECK(same(content_of(&f32r, value, rest, 3), content_of(&f32r, value, rest, 1)));
	/* python3: hashlib.blake2b(b"a f32 6\n" + struct.pack("<6f", 1, 2, 3, 4, 5, 6),
	 * digest_size=32) */
	sig_hex(hex, d.b, sizeof d.b);
	CHECK_STR(hex, "ba95469138dcb14d13f6da283ee4d207dd6d3d6908b9f932a0ec3238d26807d0");
}

static void test_json(void)
{
	static const char *const numbers[] = { "0", "-0", "12", "0.5", "-1.25e-05", "1E+9", NULL };
	static const char *const words[] = { "", "-", "012", "1.", ".5", "1e", "1e+", "+1", "1x", "0x1",
					     "nan", "1 ", NULL };
	struct buf out = BUF_INIT;

	CHECK(json_text(&out, "a\"b\\c\n\x01\x7f \xc3\xa4 \xe4 \xed\xa0\x80 \xf0\x9f\x98\x80 \xc0\xaf \xf4\x90\x80\x80") == 0);
	CHECK_STR(out.data, "\"a\\\"b\\\\c\\u000a\\u0001\\u007f \xc3\xa4 \\u00e4 \\u00ed\\u00a0\\u0080 \xf0\x9f\x98\x80 "
			    "\\u00c0\\u00af \\u00f4\\u0090\\u0080\\u0080\"");
	buf_clear(&out);
	CHECK(json_f64(&out, 0.1) == 0 && json_f64(&out, INFINITY) == 0 && json_f64(&out, NAN) == 0);
	CHECK_STR(out.data, "0.1nullnull");
	for (const char *const *s = numbers; *s; s++) {
		buf_clear(&out);
		CHECK(json_value(&out, *s) == 0);
		CHECK_STR(out.data, *s);
	}
	for (const char *const *s = words; *s; s++) {
		buf_clear(&out);
		CHECK(json_value(&out, *s) == 0 && out.data[0] == '"');
	}
	buf_release(&out);
}

int main(void)
{
	CHECK(sig_init() == 0);
	test_tally();
	test_contrast();
	test_content();
	test_json();
	return unit_done("tally");
}
