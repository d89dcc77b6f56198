/* ckpt: all values of a file at once. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "form/ckpt.h"
#include "unit.h"

static struct frame_reader *written(
	const struct header *h, const float *value, const float *rest, int *fd)
{
	uint8_t seed[SIG_SEED] = { 1 };
	struct frame_writer *w;
	struct frame_reader *r;
	struct sig_secret key;

	*fd = memfd_create("ckpt", 0);
	CHECK(sig_from_seed(&key, seed) == 0);
	CHECK(frame_create(&w, *fd, h, &key, NULL) == 0);
	for (size_t t = 0, at = 0; t < h->tensors.n && rest; at += h->tensors.v[t++].count)
		CHECK(frame_write(w, value + at, rest + at, h->tensors.v[t].count) == 0);
	if (!rest)
		CHECK(ckpt_write(w, &h->tensors, value) == 0);
	CHECK(frame_finish(w, NULL) == 0);
	frame_writer_free(w);
	lseek(*fd, 0, SEEK_SET);
	CHECK(frame_open(&r, *fd, "x.ckpt", NULL, NULL) == 0);
	return r;
}

static void add(struct header *h, const char *name, enum dtype dtype, enum encoding enc, uint64_t n)
{
	struct tensor t = { .dtype = dtype, .enc = enc, .rank = 1, .dim = { n } };

	snprintf(t.name, sizeof t.name, "%s", name);
	CHECK(tensors_push(&h->tensors, &t) == 0);
}

static void test_round_trip(void)
{
	float value[7] = { 1, 2, 3, 4, 5, 6, 7 }, back[7];
	struct header h = { 0 };
	struct frame_reader *r;
	int fd;

	add(&h, "a", DTYPE_F32, ENC_F32, 4);
	add(&h, "b", DTYPE_F32, ENC_BF16, 3);
	r = written(&h, value, NULL, &fd);
	CHECK(ckpt_read(r, back) == 0);
	CHECK(memcmp(value, back, sizeof value) == 0);
	frame_reader_free(r);
	close(fd);

	value[5] = NAN;
	r = written(&h, value, NULL, &fd);
	CHECK(ckpt_read(r, back) == ERR_DATA);
	CHECK_STR(err_text(), "x.ckpt: tensor 'b': element 1 is not finite");
	frame_reader_free(r);
	close(fd);
	header_release(&h);
}

static void test_remainders(void)
{
	float value[4] = { 1, 2, 3, 4 }, rest[4] = { 0, 0x1p-23f, 1, 0 }, back[4];
	struct header h = { 0 };
	struct frame_reader *r;
	int fd;

	add(&h, "a", DTYPE_F32, ENC_F32R, 4);
	r = written(&h, value, rest, &fd);
	CHECK(ckpt_read(r, back) == 0);
	CHECK(back[0] == 1 && back[1] == 2 + 0x1p-23f && back[2] == 4 && back[3] == 4);
	frame_reader_free(r);
	close(fd);
	header_release(&h);
}

/* From a file: more frames than one a tensor, a remainder, and each of two that are no good. */
static void test_load(void)
{
	size_t n = FRAME_ELEMS_PAIR + 5, at = FRAME_ELEMS_PAIR + 2;
	float *value = calloc(n + 3, sizeof *value), *rest = calloc(n + 3, sizeof *rest), *back = calloc(n + 3, sizeof *back);
	struct header h = { 0 };
	struct frame_scratch *s;
	struct frame_reader *r;
	int fd;

	add(&h, "a", DTYPE_F32, ENC_F32R, n);
	add(&h, "b", DTYPE_F32, ENC_F32R, 3);
	for (size_t i = 0; i < n + 3; i++)
		value[i] = (float)i;
	rest[at] = 0.5f;
	CHECK(frame_scratch_new(&s) == 0);
	r = written(&h, value, rest, &fd);
	CHECK(ckpt_load(r, s, back) == 0);
	value[at] += 0.5f;
	CHECK(memcmp(value, back, (n + 3) * sizeof *value) == 0);
	frame_reader_free(r);
	lseek(fd, 0, SEEK_SET);
	CHECK(pwrite(fd, "\xff\xff", 2, 5000) == 2);
	CHECK(frame_open(&r, fd, "x.ckpt", NULL, NULL) == 0);
	CHECK(ckpt_load(r, s, back) == ERR_AUTH);
	frame_reader_free(r);
	close(fd);

	value[n + 1] = INFINITY;
	r = written(&h, value, rest, &fd);
	CHECK(ckpt_load(r, s, back) == ERR_DATA);
	CHECK_STR(err_text(), "x.ckpt: tensor 'b': element 1 is not finite");
	frame_reader_free(r);
	close(fd);
	frame_scratch_free(s);
	header_release(&h);
	free(value);
	free(rest);
	free(back);
}

static void test_integers(void)
{
	uint8_t seed[SIG_SEED] = { 1 };
	struct header h = { 0 };
	struct frame_writer *w;
	struct frame_reader *r;
	struct sig_secret key;
	float back[1];
	int fd = memfd_create("ckpt", 0);

	add(&h, "ids", DTYPE_U8, ENC_PLAIN, 1);
	CHECK(sig_from_seed(&key, seed) == 0);
	CHECK(frame_create(&w, fd, &h, &key, NULL) == 0 && frame_write_int(w, "x", 1) == 0 &&
		frame_finish(w, NULL) == 0);
	frame_writer_free(w);
	lseek(fd, 0, SEEK_SET);
	CHECK(frame_open(&r, fd, "x.tok", NULL, NULL) == 0);
	CHECK(ckpt_read(r, back) == ERR_DATA);
	CHECK_STR(err_text(), "x.tok: tensor 'ids' is of type u8, not f32");
	frame_reader_free(r);
	close(fd);
	header_release(&h);
}

int main(void)
{
	test_round_trip();
	test_remainders();
	test_load();
	test_integers();
	return unit_done("ckpt");
}
