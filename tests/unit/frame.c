/* frame: sealed files written, streamed, read at random, and refused when they are not what was
 * written. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/pool.h"
#include "form/chain.h"
#include "form/frame.h"
#include "io/fd.h"
#include "unit.h"

/* A file in memory, and what is in it. */
struct file {
	int fd;
	uint8_t *bytes;
	size_t n;
};

static struct sig_secret secret(uint8_t seed)
{
	uint8_t bytes[SIG_SEED] = { seed };
	struct sig_secret s;

	CHECK(sig_from_seed(&s, bytes) == 0);
	return s;
}

/* The file that has been written to fd so far. */
static struct file file_from(int fd)
{
	struct file f = { fd, NULL, 0 };
	uint64_t size;

	CHECK(fd_regular(fd, &size));
	f.n = (size_t)size;
	f.bytes = malloc(f.n + 1);
	CHECK(fd_read_at(fd, f.bytes, f.n, 0) == (ssize_t)f.n);
	lseek(fd, 0, SEEK_SET);
	return f;
}

static void file_close(struct file *f)
{
	close(f->fd);
	free(f->bytes);
}

static void add(struct header *h, const char *name, enum dtype dtype, enum encoding enc,
	uint64_t d0, uint64_t d1)
{
	struct tensor t = {
		.dtype = dtype, .enc = enc, .rank = d0 ? d1 ? 2 : 1 : 0, .dim = { d0, d1 }
	};

	snprintf(t.name, sizeof t.name, "%s", name);
	CHECK(tensors_push(&h->tensors, &t) == 0);
}

/* One of everything: a scalar, several slices, all encodings. */
static struct header header_big(void)
{
	struct header h = { 0 };

	CHECK(conf_set(&h.keys, "kind", "checkpoint") == 0);
	add(&h, "scalar", DTYPE_F32, ENC_F32, 0, 0);
	add(&h, "long", DTYPE_F32, ENC_F32, 1000, 600);
	add(&h, "exact", DTYPE_F32, ENC_F32, FRAME_ELEMS, 0);
	add(&h, "pair", DTYPE_F32, ENC_F32R, 3, 50001);
	add(&h, "half", DTYPE_F32, ENC_BF16, 777, 0);
	add(&h, "bytes", DTYPE_U8, ENC_PLAIN, 100000, 0);
	add(&h, "ids", DTYPE_U32, ENC_PLAIN, 20000, 0);
	return h;
}

/* Element i of tensor t: exact in bf16, so one function serves all encodings. */
static float value_at(uint32_t t, uint64_t i)
{
	return (float)((i * 7 + t) % 251) - 100;
}

static float rest_at(uint64_t i)
{
	return i % 5 ? 0 : 0x1p-30f;
}

static void write_tensor(
	struct frame_writer *w, const struct tensor *t, uint32_t index, size_t step)
{
	float *value = malloc(t->count * sizeof *value), *rest = malloc(t->count * sizeof *rest);
	uint8_t *u8 = malloc(t->count);
	uint32_t *u32 = malloc(t->count * sizeof *u32);

	for (uint64_t i = 0; i < t->count; i++) {
		value[i] = value_at(index, i);
		rest[i] = rest_at(i);
		u8[i] = (uint8_t)(i * 3);
		u32[i] = (uint32_t)(i * 99991);
	}
	for (size_t at = 0; at < t->count; at += step) {
		size_t n = t->count - at < step ? t->count - at : step;

		if (t->dtype == DTYPE_U8)
			CHECK(frame_write_int(w, u8 + at, n) == 0);
		else if (t->dtype == DTYPE_U32)
			CHECK(frame_write_int(w, u32 + at, n) == 0);
		else
			CHECK(frame_write(w, value + at, t->enc == ENC_F32R ? rest + at : NULL,
				      n) == 0);
	}
	free(value);
	free(rest);
	free(u8);
	free(u32);
}

static struct file write_file(
	const struct header *h, uint8_t seed, size_t step, struct pool *pool, digest *id)
{
	struct sig_secret key = secret(seed);
	int fd = memfd_create("frame", 0);
	struct frame_writer *w;
	struct file f;

	CHECK(frame_create(&w, fd, h, &key, pool) == 0);
	for (uint32_t t = 0; t < h->tensors.n; t++)
		write_tensor(w, &h->tensors.v[t], t, step);
	CHECK(frame_finish(w, id) == 0);
	f = file_from(fd);
	frame_writer_free(w);
	return f;
}

static bool slice_is_right(const struct header *h, const struct frame_slice *s)
{
	const struct tensor *t = &h->tensors.v[s->tensor];
	bool right = true;

	for (uint32_t k = 0; k < s->n; k++) {
		uint64_t i = s->first + k;

		if (t->dtype == DTYPE_U8)
			right = right && ((const uint8_t *)s->elements)[k] == (uint8_t)(i * 3);
		else if (t->dtype == DTYPE_U32)
			right = right &&
				((const uint32_t *)s->elements)[k] == (uint32_t)(i * 99991);
		else
			right = right && s->value[k] == value_at(s->tensor, i);
		if (t->enc == ENC_F32R)
			right = right && s->rest[k] == rest_at(i);
	}
	return right && (s->rest != NULL) == (t->enc == ENC_F32R);
}

/* Reads to the end; returns the code of the last call, and how many elements came before. */
static int stream(struct frame_reader *r, const struct header *h, uint64_t *elements)
{
	struct frame_slice s;
	bool right = true;
	int rc;

	*elements = 0;
	while ((rc = frame_next(r, &s)) > 0) {
		right = right && slice_is_right(h, &s);
		*elements += s.n;
	}
	CHECK(right);
	return rc;
}

static void check_streaming(
	const struct file *f, const struct header *h, struct pool *pool, const digest *want)
{
	struct frame_reader *r;
	uint64_t elements;
	digest id;

	lseek(f->fd, 0, SEEK_SET);
	CHECK(frame_open(&r, f->fd, "x.ckpt", NULL, pool) == 0);
	CHECK_STR(conf_get(&frame_header(r)->keys, "kind"), "checkpoint");
	CHECK(tensors_same(&h->tensors, &frame_header(r)->tensors) == 0);
	CHECK(frame_id(r, &id) == ERR_DATA);
	CHECK(stream(r, h, &elements) == 0);
	CHECK(elements == tensors_total(&h->tensors));
	CHECK(frame_id(r, &id) == 0 && memcmp(&id, want, sizeof id) == 0);
	CHECK(frame_bytes(r) == f->n);
	frame_reader_free(r);
}

static void check_random(const struct file *f, const struct header *h, const digest *want)
{
	struct frame_scratch *scratch;
	struct frame_reader *r;
	struct frame_slice s;
	uint64_t elements;
	digest id;

	lseek(f->fd, 0, SEEK_SET);
	CHECK(frame_open(&r, f->fd, "x.ckpt", NULL, NULL) == 0);
	CHECK(frame_seekable(r) == 0);
	CHECK(frame_seekable(r) == 0);
	CHECK(frame_id(r, &id) == 0 && memcmp(&id, want, sizeof id) == 0);
	CHECK(frame_bytes(r) == f->n);
	CHECK(frame_scratch_new(&scratch) == 0);
	for (uint32_t t = (uint32_t)h->tensors.n; t-- > 0;) {
		uint64_t count = 0;

		for (uint32_t k = frame_slices(r, t); k-- > 0;) {
			CHECK(frame_slice_at(r, scratch, t, k, &s) == 0);
			CHECK(s.tensor == t && slice_is_right(h, &s));
			count += s.n;
		}
		CHECK(count == h->tensors.v[t].count);
		for (uint64_t at = 0; at < h->tensors.v[t].count;
			at += 1 + h->tensors.v[t].count / 3) {
			CHECK(frame_slice_with(r, scratch, t, at, &s) == 0);
			CHECK(s.first <= at && at < s.first + s.n);
		}
		CHECK(frame_slice_with(r, scratch, t, h->tensors.v[t].count, &s) == ERR_DATA);
		CHECK(frame_slice_at(r, scratch, t, frame_slices(r, t), &s) == ERR_DATA);
	}
	CHECK(frame_slices(r, (uint32_t)h->tensors.n) == 0);
	frame_scratch_free(scratch);
	CHECK(frame_next(r, &s) == ERR_USAGE); /* one way or the other */
	frame_reader_free(r);

	lseek(f->fd, 0, SEEK_SET);
	CHECK(frame_open(&r, f->fd, "x.ckpt", NULL, NULL) == 0);
	CHECK(stream(r, h, &elements) == 0);
	CHECK(elements == tensors_total(&h->tensors));
	CHECK(frame_seekable(r) == 0 && frame_next(r, &s) == 0); /* or both, one after the other */
	frame_reader_free(r);
}

static void test_round_trip(void)
{
	struct header h = header_big();
	struct pool *pool;
	struct file a, b, c;
	digest id_a, id_b, id_c;

	CHECK(pool_open(&pool, 3) == 0);
	a = write_file(&h, 1, 1 << 30, NULL, &id_a);
	b = write_file(&h, 1, 1009, pool, &id_b);
	c = write_file(&h, 2, 1 << 30, NULL, &id_c);
	CHECK(a.n == b.n && memcmp(a.bytes, b.bytes, a.n) == 0);
	CHECK(memcmp(&id_a, &id_b, sizeof id_a) == 0 && memcmp(&id_a, &id_c, sizeof id_a) != 0);
	check_streaming(&a, &h, NULL, &id_a);
	check_streaming(&a, &h, pool, &id_a);
	check_random(&a, &h, &id_a);
	file_close(&a);
	file_close(&b);
	file_close(&c);
	pool_close(pool);
	header_release(&h);
}

/* A header that spans frames, and no tensors at all. */
static void test_odd_tables(void)
{
	struct header many = { 0 }, none = { 0 };
	struct file f;
	digest id;

	CHECK(conf_set(&many.keys, "kind", "checkpoint") == 0);
	for (int i = 0; i < 8000; i++) {
		char name[TENSOR_NAME + 1];

		snprintf(name, sizeof name, "%0*d", TENSOR_NAME, i);
		add(&many, name, DTYPE_F32, ENC_F32, 1, 0);
	}
	f = write_file(&many, 1, 1 << 30, NULL, &id);
	check_streaming(&f, &many, NULL, &id);
	check_random(&f, &many, &id);
	file_close(&f);
	header_release(&many);

	CHECK(conf_set(&none.keys, "kind", "checkpoint") == 0);
	f = write_file(&none, 1, 1 << 30, NULL, &id);
	check_streaming(&f, &none, NULL, &id);
	check_random(&f, &none, &id);
	file_close(&f);
	header_release(&none);
}

static void test_writer_refuses(void)
{
	struct sig_secret key = secret(1);
	struct frame_writer *w;
	struct header h = { 0 };
	float x[3] = { 1, 2, 3 };
	int fd = memfd_create("frame", 0);

	add(&h, "a", DTYPE_F32, ENC_F32, 2, 0);
	add(&h, "b", DTYPE_U8, ENC_PLAIN, 1, 0);
	CHECK(frame_create(&w, fd, &h, &key, NULL) == 0);
	CHECK(frame_write(w, x, NULL, 3) == ERR_DATA);
	CHECK_SAYS("more values than tensor 'a' has elements");
	CHECK(frame_write(w, x, x, 1) == ERR_DATA);
	CHECK(frame_write_int(w, x, 1) == ERR_DATA);
	CHECK(frame_write(w, x, NULL, 2) == 0);
	CHECK(frame_write(w, x, NULL, 1) == ERR_DATA);
	CHECK(frame_finish(w, NULL) == ERR_DATA);
	CHECK_SAYS("tensor 'b' is not complete");
	CHECK(frame_write_int(w, "x", 1) == 0);
	CHECK(frame_write_int(w, "x", 1) == ERR_DATA);
	CHECK(frame_finish(w, NULL) == 0);
	frame_writer_free(w);
	close(fd);
	header_release(&h);
}

static void test_full_device(void)
{
	struct header h = header_big();
	struct sig_secret key = secret(1);
	int fd = open("/dev/full", O_WRONLY);
	struct frame_writer *w;

	CHECK(fd >= 0);
	CHECK(frame_create(&w, fd, &h, &key, NULL) == ERR_IO);
	close(fd);
	header_release(&h);
}

struct taken {
	const struct header *h;
	int rc[FRAME_MANY];
	bool right[FRAME_MANY];
	int n;
};

static void take(void *ctx, size_t k, int rc, const struct frame_slice *s)
{
	struct taken *t = ctx;

	t->n++;
	t->rc[k] = rc;
	t->right[k] = rc < 0 ? s == NULL : s->tensor == 1 && slice_is_right(t->h, s);
}

/* Several files at once: each is judged for itself. */
static void test_several_files(void)
{
	struct header h = header_big();
	struct taken t = { .h = &h };
	struct frame_scratch *scratch;
	struct frame_reader *r[FRAME_MANY];
	struct file f[FRAME_MANY];
	int damaged = 0;

	CHECK(frame_scratch_new(&scratch) == 0);
	for (int k = 0; k < FRAME_MANY; k++) {
		f[k] = write_file(&h, (uint8_t)(k + 1), 1 << 30, NULL, NULL);
		CHECK(frame_open(&r[k], f[k].fd, "x.ckpt", NULL, NULL) == 0);
		CHECK(frame_seekable(r[k]) == 0);
	}
	for (size_t at = f[2].n / 10; at < f[2].n / 2; at += 100)
		CHECK(pwrite(f[2].fd, "damage", 6, (off_t)at) == 6);
	for (size_t n = 1; n <= FRAME_MANY; n++)
		for (uint64_t at = 0; at < h.tensors.v[1].count; at += FRAME_ELEMS) {
			t.n = 0;
			CHECK(frame_slices_with((const struct frame_reader *const *)r, n, scratch, 1,
				      at, take, &t) == 0);
			CHECK(t.n == (int)n);
			for (size_t k = 0; k < n; k++)
				CHECK(t.right[k] && (k == 2 || t.rc[k] == 0));
			damaged += n > 2 && t.rc[2] == ERR_AUTH;
		}
	CHECK(damaged > 0);
	CHECK(frame_slices_with((const struct frame_reader *const *)r, 2, scratch, 1,
		      h.tensors.v[1].count, take, &t) == 0);
	CHECK(t.rc[0] == ERR_DATA && t.rc[1] == ERR_DATA);
	for (int k = 0; k < FRAME_MANY; k++) {
		frame_reader_free(r[k]);
		file_close(&f[k]);
	}
	frame_scratch_free(scratch);
	header_release(&h);
}

static int read_strictly(int fd, struct frame_scratch *scratch)
{
	struct frame_reader *r;
	struct frame_slice s;
	int rc;

	lseek(fd, 0, SEEK_SET);
	if ((rc = frame_open(&r, fd, "x.ckpt", NULL, NULL)) < 0)
		return rc;
	if ((rc = frame_seekable(r)) == 0 && (rc = frame_strict(r)) == 0)
		for (uint32_t k = 0; rc == 0 && k < frame_slices(r, 0); k++)
			rc = frame_slice_at(r, scratch, 0, k, &s);
	frame_reader_free(r);
	return rc;
}

/* Read at random, strictly and from end to end, a file shows every flipped bit. */
static void test_strict(void)
{
	struct header h = { 0 };
	struct frame_scratch *scratch;
	struct file f;
	int missed = 0;

	add(&h, "a", DTYPE_F32, ENC_F32, 20, 0);
	f = write_file(&h, 1, 1 << 30, NULL, NULL);
	CHECK(frame_scratch_new(&scratch) == 0);
	CHECK(read_strictly(f.fd, scratch) == 0);
	for (size_t bit = 0; bit < 8 * f.n; bit++) {
		uint8_t byte = f.bytes[bit / 8] ^ (uint8_t)(1 << bit % 8);

		CHECK(pwrite(f.fd, &byte, 1, (off_t)bit / 8) == 1);
		missed += read_strictly(f.fd, scratch) == 0;
		CHECK(pwrite(f.fd, &f.bytes[bit / 8], 1, (off_t)bit / 8) == 1);
	}
	CHECK(missed == 0);
	CHECK(read_strictly(f.fd, scratch) == 0);
	frame_scratch_free(scratch);
	file_close(&f);
	header_release(&h);
}

int main(void)
{
	test_round_trip();
	test_several_files();
	test_strict();
	test_odd_tables();
	test_writer_refuses();
	test_full_device();
	return unit_done("frame");
}
