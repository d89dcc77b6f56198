/* gguf - values of each type, files written and read back, and files that are not right. */
#include "gguf_read.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/rng.h"
#include "io/fd.h"
#include "unit.h"

#define ROWS 7
#define WIDTH 64

static int new_file(void)
{
	int fd;

	CHECK(fd_temporary(&fd) == 0);
	return fd;
}

/* ---- values ---- */

static void f32_and_halves_round_trip(void)
{
	static const float exact[] = { 0, -0.0f, 1, -2, 0.5f, 65504, 6103515625e-14f, 5.9604645e-8f, 1.5f };
	uint8_t bytes[sizeof exact];
	float back[9];

	for (int t = GGUF_F32; t <= GGUF_BF16; t++) {
		CHECK(gguf_encode((enum gguf_type)t, bytes, exact, 9) == 0);
		gguf_decode((enum gguf_type)t, back, bytes, 9);
		for (int i = 0; i < 9; i++)
			CHECK(t == GGUF_BF16 ? fabsf(back[i] - exact[i]) <= fabsf(exact[i]) / 256 : back[i] == exact[i]);
	}
	CHECK(gguf_row_bytes(GGUF_F32, 10) == 40 && gguf_row_bytes(GGUF_F16, 10) == 20);
	CHECK(gguf_row_bytes(GGUF_BF16, 10) == 20 && gguf_row_bytes(GGUF_Q8_0, 64) == 68);
}

static void what_a_type_cannot_hold_is_named(void)
{
	const float large[GGUF_BLOCK] = { 1, -3e38f, 1e5f };
	uint8_t bytes[4 * GGUF_BLOCK];

	CHECK(gguf_encode(GGUF_F32, bytes, large, 3) == 0);
	CHECK(gguf_encode(GGUF_F16, bytes, large + 2, 1) == ERR_DATA);
	CHECK_SAYS("element 0 is 100000, more than f16 can hold");
	CHECK(gguf_encode(GGUF_BF16, bytes, (const float[]){ 1, 3.4e38f }, 2) == ERR_DATA);
	CHECK_SAYS("element 1 is 3.4e+38, more than bf16 can hold");
	CHECK(gguf_encode(GGUF_Q8_0, bytes, large, GGUF_BLOCK) == ERR_DATA);
	CHECK_SAYS("more than q8_0 can hold");
}

/* Blocks of zeros, of one value in millions, of denormals, of large ones: no value is further off than half
 * a step, and the largest not at all beyond 127. */
static void q8_0_is_within_half_a_step(void)
{
	static const float scale[] = { 0, 1e-44f, 1e-30f, 1e-9f, 3e-6f, 1e-3f, 0.02f, 1, 1000, 8e6f };
	float in[GGUF_BLOCK], out[GGUF_BLOCK];
	uint8_t bytes[2 + GGUF_BLOCK];
	struct rng rng;

	rng_init(&rng, 1, rng_stream("q8_0"));
	for (size_t s = 0; s < sizeof scale / sizeof scale[0]; s++)
		for (int round = 0; round < 50; round++) {
			float most = 0;

			for (int i = 0; i < GGUF_BLOCK; i++) {
				in[i] = round == 0 && i ? 0 : scale[s] * (float)(rng_unit(&rng) * 2 - 1);
				most = fmaxf(most, fabsf(in[i]));
			}
			CHECK(gguf_encode(GGUF_Q8_0, bytes, in, GGUF_BLOCK) == 0);
			gguf_decode(GGUF_Q8_0, out, bytes, GGUF_BLOCK);
			/* the step is the scale, which f16 rounds */
			const double step = (double)most / 127 * 1.001 + 0x1p-24;

			for (int i = 0; i < GGUF_BLOCK; i++)
				CHECK(fabs((double)out[i] - (double)in[i]) <= step * 0.5001 &&
					(in[i] != 0 || out[i] == 0));
		}
}

/* ---- files ---- */

/* Values that bf16 holds. */
static void fill(float *value, size_t n)
{
	for (size_t i = 0; i < n; i++)
		value[i] = (float)((int)(i % 255) - 127) / 64;
}

static struct tensor shape(const char *name, uint64_t a, uint64_t b, uint64_t c)
{
	struct tensor t = { .dtype = DTYPE_F32, .enc = ENC_F32, .rank = c ? 3 : b ? 2 : 1, .dim = { a, b, c } };

	snprintf(t.name, sizeof t.name, "%s", name);
	CHECK(tensor_check(&t) == 0);
	return t;
}

static void put_keys(struct gguf_writer *w)
{
	CHECK(gguf_put_text(w, "general.architecture", "llama") == 0);
	CHECK(gguf_put_u32(w, "a.count", 77) == 0);
	CHECK(gguf_put_f32(w, "a.real", 0.25f) == 0);
	CHECK(gguf_put_bool(w, "a.yes", true) == 0);
	CHECK(gguf_put_array(w, "words", GGUF_ITEM_TEXT, 2) == 0);
	CHECK(gguf_item_text(w, "one", 3) == 0 && gguf_item_text(w, "two\n", 4) == 0);
	CHECK(gguf_put_array(w, "numbers", GGUF_ITEM_I32, 1) == 0 && gguf_item_i32(w, -5) == 0);
	CHECK(gguf_put_array(w, "scores", GGUF_ITEM_F32, 1) == 0 && gguf_item_f32(w, -5) == 0);
	CHECK(gguf_put_array(w, "bytes", GGUF_ITEM_U8, 3) == 0 && gguf_item_bytes(w, "abc", 3) == 0);
}

static void write_file(int fd, const float *value)
{
	const struct tensor vector = shape("norm", WIDTH, 0, 0), matrix = shape("m.weight", ROWS, WIDTH, 0),
		experts = shape("e.weight", 2, ROWS, WIDTH);
	struct gguf_writer *w;

	CHECK(gguf_create(&w, fd) == 0);
	put_keys(w);
	CHECK(gguf_put_tensor(w, &vector, GGUF_F32) == 0);
	for (int t = GGUF_F32; t < GGUF_TYPES; t++) {
		struct tensor named = matrix;

		snprintf(named.name, sizeof named.name, "%s.weight", gguf_type_name((enum gguf_type)t));
		CHECK(gguf_put_tensor(w, &named, (enum gguf_type)t) == 0);
	}
	CHECK(gguf_put_tensor(w, &experts, GGUF_F16) == 0);
	CHECK(gguf_finish(w) == ERR_DATA);
	for (size_t e = 2; e-- > 0;)
		CHECK(gguf_write_rows(w, 5, e * ROWS, value + e * ROWS * WIDTH, ROWS) == 0);
	for (size_t t = 1; t < 5; t++) /* in any order, and in parts */
		for (size_t row = ROWS; row-- > 0;)
			CHECK(gguf_write_rows(w, t, row, value + row * WIDTH, 1) == 0);
	CHECK(gguf_finish(w) == ERR_DATA);
	CHECK_SAYS("1 rows are missing");
	CHECK(gguf_write_rows(w, 0, 0, value, 1) == 0 && gguf_finish(w) == 0);
	CHECK(gguf_write_rows(w, 0, 0, value, 1) == ERR_USAGE);
	gguf_writer_free(w);
}

static void check_keys(const struct gguf *g)
{
	char text[32], small[4];
	uint64_t n;
	double x;
	bool yes;

	CHECK(gguf_keys(g) == 8);
	CHECK_STR(gguf_key(g, 1), "a.count");
	CHECK(gguf_get_text(g, "general.architecture", text, sizeof text) == 1);
	CHECK_STR(text, "llama");
	CHECK(gguf_get_text(g, "general.architecture", small, sizeof small) == 1 && strlen(small) < 4);
	CHECK(gguf_get_u64(g, "a.count", &n) == 1 && n == 77);
	CHECK(gguf_get_f64(g, "a.real", &x) == 1 && x == 0.25);
	CHECK(gguf_get_bool(g, "a.yes", &yes) == 1 && yes);
	CHECK(gguf_get_count(g, "words", &n) == 1 && n == 2);
	CHECK(gguf_get_count(g, "bytes", &n) == 1 && n == 3);
	CHECK(gguf_get_u64(g, "none", &n) == 0 && gguf_get_u64(g, "words", &n) == ERR_DATA);
	CHECK_SAYS("f: key 'words' is not a whole number");
}

static void check_tensors(const struct gguf *g, const float *value)
{
	float row[WIDTH];

	CHECK(gguf_tensors(g) == 6 && !gguf_find(g, "nothing"));
	for (size_t i = 0; i < 6; i++) {
		const struct gguf_tensor *t = gguf_tensor(g, i);
		const uint64_t rows = t->shape.count / WIDTH;

		CHECK(gguf_find(g, t->shape.name) == t && t->offset % GGUF_ALIGN == 0);
		CHECK(rows == (i == 0 ? 1u : i == 5 ? 2u * ROWS : ROWS));
		for (uint64_t r = 0; r < rows; r++) {
			CHECK(gguf_read_rows(g, t, r, row, 1) == 0);
			for (size_t k = 0; k < WIDTH; k++)
				CHECK(t->type == GGUF_Q8_0 ? fabsf(row[k] - value[r * WIDTH + k]) < 0.01f
							   : row[k] == value[r * WIDTH + k]);
		}
		CHECK(gguf_read_rows(g, t, rows, row, 1) == ERR_USAGE);
	}
	CHECK(gguf_tensor(g, 5)->shape.rank == 3 && gguf_tensor(g, 5)->shape.dim[0] == 2);
}

static void a_file_reads_back(void)
{
	float value[2 * ROWS * WIDTH];
	int fd = new_file();
	struct gguf *g;
	uint64_t size;

	fill(value, 2 * ROWS * WIDTH);
	write_file(fd, value);
	CHECK(gguf_open(&g, fd, "f") == 0);
	check_keys(g);
	check_tensors(g, value);
	CHECK(fd_regular(fd, &size) && size % GGUF_ALIGN == 0);
	gguf_close(g);
	close(fd);
}

/* However many bytes are there: an error, and no more. */
static void cut_files_are_refused(void)
{
	float value[2 * ROWS * WIDTH] = { 0 };
	int fd = new_file();
	uint64_t size;
	struct gguf *g;

	write_file(fd, value);
	CHECK(fd_regular(fd, &size));
	for (uint64_t n = size - GGUF_ALIGN; n > 0; n -= n > 1200 ? 97 : 1) {
		CHECK(ftruncate(fd, (off_t)n) == 0);
		CHECK(gguf_open(&g, fd, "f") == ERR_DATA);
		CHECK(strncmp(err_text(), "f: ", 3) == 0);
	}
	CHECK(ftruncate(fd, 0) == 0 && gguf_open(&g, fd, "f") == ERR_DATA);
	CHECK_SAYS("f: not a gguf file");
	close(fd);
}

/* ---- files made by hand ---- */

struct made { uint8_t b[2048]; size_t n; };

static void u32(struct made *m, uint32_t v)
{
	le32_put(m->b + m->n, v);
	m->n += 4;
}
static void u64(struct made *m, uint64_t v)
{
	le64_put(m->b + m->n, v);
	m->n += 8;
}
static void text(struct made *m, const char *s)
{
	u64(m, strlen(s));
	memcpy(m->b + m->n, s, strlen(s));
	m->n += strlen(s);
}
static void head(struct made *m, uint32_t version, uint64_t tensors, uint64_t keys)
{
	*m = (struct made){ .n = 0 };
	u32(m, 0x46554747);
	u32(m, version);
	u64(m, tensors);
	u64(m, keys);
}
static void tensor(struct made *m, const char *name, uint64_t in, uint64_t out, uint32_t type, uint64_t offset)
{
	text(m, name);
	u32(m, 2);
	u64(m, in);
	u64(m, out);
	u32(m, type);
	u64(m, offset);
}

/* With `data` bytes behind it from a multiple of 32 on. */
static void refused(const struct made *m, size_t data, const char *says)
{
	int fd = new_file();
	struct gguf *g;

	CHECK(fd_write(fd, m->b, m->n) == 0);
	CHECK(data == 0 || ftruncate(fd, (off_t)((m->n + 31) / 32 * 32 + data)) == 0);
	CHECK(gguf_open(&g, fd, "f") == ERR_DATA);
	CHECK_SAYS(says);
	close(fd);
}

static void heads_that_lie_are_refused(void)
{
	struct made m;

	head(&m, 2, 0, 0);
	refused(&m, 0, "f: gguf of version 2, not 3");
	head(&m, 3u << 24, 0, 0);
	refused(&m, 0, "f: written for machines of the other byte order");
	head(&m, 3, UINT64_C(1) << 63, 0);
	refused(&m, 64, "f: 9223372036854775808 tensors, more than the file can hold");
	head(&m, 3, 0, UINT64_C(1) << 63);
	refused(&m, 64, "f: 9223372036854775808 keys, more than the file can hold");
	head(&m, 3, 0, 1);
	u64(&m, UINT64_C(1) << 63);
	refused(&m, 64, "a key of 9223372036854775808 bytes");
	head(&m, 3, 0, 1);
	text(&m, "k");
	u32(&m, 99);
	refused(&m, 64, "unknown type of value 99");
	head(&m, 3, 0, 1);
	text(&m, "k");
	u32(&m, 8);
	u64(&m, UINT64_MAX - 3);
	refused(&m, 64, "cut short");
	head(&m, 3, 0, 1);
	text(&m, "k");
	u32(&m, 9);
	u32(&m, 10);
	u64(&m, UINT64_C(1) << 61); /* times 8 wraps */
	refused(&m, 64, "an array of 2305843009213693952 items");
	head(&m, 3, 0, 1);
	text(&m, "k");
	for (int i = 0; i < 20; i++) {
		u32(&m, 9);
		if (i)
			u64(&m, 1);
	}
	u64(&m, 1);
	refused(&m, 64, "arrays within arrays");
	head(&m, 3, 0, 2);
	for (int i = 0; i < 2; i++) {
		text(&m, "k");
		u32(&m, 4);
		u32(&m, 1);
	}
	refused(&m, 64, "f: key 'k' is given twice");
	head(&m, 3, 0, 1);
	text(&m, "general.alignment");
	u32(&m, 4);
	u32(&m, 0);
	refused(&m, 64, "f: an alignment of 0 makes no sense");
}

static void tables_that_lie_are_refused(void)
{
	struct made m;

	head(&m, 3, 1, 0);
	tensor(&m, "t", 8, 4, 2, 0);
	refused(&m, 128, "tensor 't': type number 2 is none that is read here");
	head(&m, 3, 1, 0);
	tensor(&m, "t", 8, 5, 0, 0);
	refused(&m, 128, "f: tensor 't': lies outside of the file");
	head(&m, 3, 1, 0);
	tensor(&m, "t", 8, 4, 0, UINT64_MAX - 31);
	refused(&m, 128, "f: tensor 't': lies outside of the file");
	head(&m, 3, 1, 0);
	tensor(&m, "t", 8, 4, 0, 8);
	refused(&m, 192, "f: tensor 't': begins at 8, no multiple of 32");
	head(&m, 3, 1, 0);
	tensor(&m, "t", UINT64_C(1) << 40, UINT64_C(1) << 40, 0, 0);
	refused(&m, 128, "more than 2^48 elements");
	head(&m, 3, 1, 0);
	tensor(&m, "t", 0, 4, 0, 0);
	refused(&m, 128, "dimension 1 is zero");
	head(&m, 3, 1, 0);
	tensor(&m, "t", 33, 1, 8, 0);
	refused(&m, 128, "rows of 33 values are not blocks of 32");
	head(&m, 3, 1, 0);
	tensor(&m, "a/../b", 8, 4, 0, 0);
	refused(&m, 128, "'a/../b' is not a tensor name");
	head(&m, 3, 2, 0);
	tensor(&m, "t", 8, 4, 0, 0);
	tensor(&m, "t", 8, 4, 0, 128);
	refused(&m, 256, "f: tensor 't' is there twice");
	head(&m, 3, 2, 0);
	tensor(&m, "a", 8, 4, 0, 96);
	tensor(&m, "b", 8, 4, 0, 0);
	refused(&m, 256, "f: tensor 'a' overlaps 'b'");
}

static void what_is_out_of_place_is_refused(void)
{
	struct tensor odd = shape("odd", 3, 40, 0), fine = shape("fine", 3, 32, 0);
	char name[GGUF_NAME + 2];
	struct gguf_writer *w;
	int fd = new_file();

	CHECK(gguf_create(&w, fd) == 0);
	CHECK(gguf_put_array(w, "a", GGUF_ITEM_I32, 1) == 0);
	CHECK(gguf_put_u32(w, "b", 1) == ERR_USAGE);
	CHECK(gguf_item_i32(w, 1) == 0 && gguf_item_i32(w, 1) == ERR_USAGE);
	CHECK(gguf_put_tensor(w, &odd, GGUF_Q8_0) == ERR_DATA);
	CHECK_SAYS("tensor 'odd': rows of 40 values are not blocks of 32");
	memset(name, 'n', sizeof name - 1);
	name[sizeof name - 1] = '\0';
	odd = shape(name, 3, 32, 0);
	CHECK(gguf_put_tensor(w, &odd, GGUF_F32) == ERR_DATA);
	CHECK(gguf_put_tensor(w, &fine, GGUF_Q8_0) == 0);
	CHECK(gguf_put_u32(w, "late", 1) == ERR_USAGE);
	CHECK(gguf_write_rows(w, 0, 2, (float[64]){ 0 }, 2) == ERR_USAGE);
	gguf_writer_free(w);
	close(fd);
}

int main(void)
{
	f32_and_halves_round_trip();
	what_a_type_cannot_hold_is_named();
	q8_0_is_within_half_a_step();
	a_file_reads_back();
	cut_files_are_refused();
	heads_that_lie_are_refused();
	tables_that_lie_are_refused();
	what_is_out_of_place_is_refused();
	return unit_done("gguf");
}
