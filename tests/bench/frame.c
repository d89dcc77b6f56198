/*
 * frame - speed of sealed f32 files beside the parts they are made of, all measured in one run,
 * round after round, medians. Bytes are bytes of values (4 for each).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/pool.h"
#include "base/rng.h"
#include "form/codec.h"
#include "form/frame.h"
#include "form/zs.h"

#define SLICES 64
#define VALUES ((size_t)SLICES * FRAME_ELEMS)
#define BYTES (VALUES * sizeof(float))
#define SLICE_BYTES (FRAME_ELEMS * sizeof(float))
#define TENSORS 4 /* in a file, each of all values */
#define ROUNDS 7

enum { SHUFFLE, UNSHUFFLE, PACK, UNPACK, HASH, HASH2, WRITE1, WRITE2, READ1, READ2, RANDOM1, PARTS };
static const char *const names[PARTS] = { "byte planes, apart", "byte planes, together", "zstd",
	"unzstd", "BLAKE2b", "BLAKE2b, 2 threads", "write, 1 thread", "write, 2 threads",
	"read, 1 thread", "read, 2 threads", "read at random, 1 thread" };

static struct bench {
	float *value, *again;
	uint8_t *planes, *packed;
	size_t packed_n[SLICES];
	struct tensor tensor;
	struct header header;
	struct sig_secret key;
	struct pool *pool;
	struct zs zs;
	int fd;
} b;

static void must(int rc)
{
	if (rc < 0) {
		fprintf(stderr, "frame: %s\n", err_text());
		exit(1);
	}
}

static void prepare(void)
{
	uint8_t seed[SIG_SEED] = { 1 };

	b.fd = memfd_create("bench", 0);
	if (b.fd < 0)
		must(err_sys("memory"));
	b.value = malloc(BYTES);
	b.again = malloc(BYTES);
	b.planes = malloc(BYTES);
	b.packed = malloc(SLICES * zs_bound(SLICE_BYTES));
	if (!b.value || !b.again || !b.planes || !b.packed)
		must(err_nomem());
	for (size_t i = 0; i < VALUES; i++)
		b.value[i] = 0.02f * rng_normal_at(1, 1, i);
	b.tensor = (struct tensor){ "w0", DTYPE_F32, ENC_F32, 1, { VALUES }, VALUES };
	for (int i = 0; i < TENSORS; i++, b.tensor.name[1]++)
		must(tensors_push(&b.header.tensors, &b.tensor));
	must(sig_init());
	must(sig_from_seed(&b.key, seed));
	must(pool_open(&b.pool, 2));
}

static void shuffle(void)
{
	for (size_t i = 0; i < SLICES; i++)
		codec_encode(&b.tensor, b.planes + i * SLICE_BYTES, b.value + i * FRAME_ELEMS, NULL,
			FRAME_ELEMS);
}

static void unshuffle(void)
{
	for (size_t i = 0; i < SLICES; i++)
		codec_decode(&b.tensor, b.again + i * FRAME_ELEMS, NULL, b.planes + i * SLICE_BYTES,
			FRAME_ELEMS);
}

static void pack(void)
{
	for (size_t i = 0; i < SLICES; i++) {
		b.packed_n[i] = zs_bound(SLICE_BYTES);
		must(zs_pack_planes(&b.zs, b.packed + i * zs_bound(SLICE_BYTES), &b.packed_n[i],
			b.planes + i * SLICE_BYTES, SLICE_BYTES, 0, FRAME_ELEMS));
	}
}

static void unpack(void)
{
	for (size_t i = 0; i < SLICES; i++)
		must(zs_unpack(&b.zs, b.planes + i * SLICE_BYTES, SLICE_BYTES,
			b.packed + i * zs_bound(SLICE_BYTES), b.packed_n[i]));
}

static int hash_slice(void *ctx, int i, int thread)
{
	digest d;

	(void)ctx;
	(void)thread;
	sig_digest(&d, b.planes + (size_t)i * SLICE_BYTES, SLICE_BYTES);
	return 0;
}

static void write_file(struct pool *pool)
{
	struct frame_writer *w;

	lseek(b.fd, 0, SEEK_SET);
	must(frame_create(&w, b.fd, &b.header, &b.key, pool));
	for (int i = 0; i < TENSORS; i++)
		must(frame_write(w, b.value, NULL, VALUES));
	must(frame_finish(w, NULL));
	frame_writer_free(w);
}

static void read_file(struct pool *pool)
{
	struct frame_reader *r;
	struct frame_slice s;
	int rc;

	lseek(b.fd, 0, SEEK_SET);
	must(frame_open(&r, b.fd, "bench", NULL, pool));
	while ((rc = frame_next(r, &s)) > 0)
		continue;
	must(rc);
	frame_reader_free(r);
}

static void read_random(void)
{
	struct frame_scratch *scratch;
	struct frame_reader *r;
	struct frame_slice s;

	lseek(b.fd, 0, SEEK_SET);
	must(frame_open(&r, b.fd, "bench", NULL, NULL));
	must(frame_seekable(r));
	must(frame_scratch_new(&scratch));
	for (uint32_t i = 0; i < TENSORS * SLICES; i++)
		must(frame_slice_at(r, scratch, i % TENSORS, i * 37 % SLICES, &s));
	frame_scratch_free(scratch);
	frame_reader_free(r);
}

static void run(int part)
{
	switch (part) {
	case SHUFFLE: shuffle(); break;
	case UNSHUFFLE: unshuffle(); break;
	case PACK: pack(); break;
	case UNPACK: unpack(); break;
	case HASH: must(pool_run(NULL, hash_slice, NULL, SLICES)); break;
	case HASH2: must(pool_run(b.pool, hash_slice, NULL, SLICES)); break;
	case WRITE1: write_file(NULL); break;
	case WRITE2: write_file(b.pool); break;
	case READ1: read_file(NULL); break;
	case READ2: read_file(b.pool); break;
	default: read_random(); break;
	}
}

static int ascending(const void *a, const void *c)
{
	double x = *(const double *)a, y = *(const double *)c;

	return (x > y) - (x < y);
}

int main(void)
{
	static double seconds[PARTS][ROUNDS];
	struct clock clock = clock_monotonic();
	double speed[PARTS], slowest;

	prepare();
	for (int part = 0; part < PARTS; part++)
		run(part); /* first touch of the memory */
	for (int round = 0; round < ROUNDS; round++)
		for (int part = 0; part < PARTS; part++) {
			double start = clock_now(&clock);

			run(part);
			seconds[part][round] = clock_now(&clock) - start;
		}
	printf("%-26s %8s\n", "f32, normal(0, 0.02)", "GB/s");
	for (int part = 0; part < PARTS; part++) {
		qsort(seconds[part], ROUNDS, sizeof(double), ascending);
		speed[part] = (double)BYTES * (part < WRITE1 ? 1 : TENSORS) /
			seconds[part][ROUNDS / 2] / 1e9;
		printf("%-26s %8.2f\n", names[part], speed[part]);
	}
	slowest = speed[PACK] < speed[HASH] ? speed[PACK] : speed[HASH];
	printf("%-26s %8.2f  (want 0.5)\n", "write / slowest part", speed[WRITE1] / slowest);
	slowest = speed[UNPACK] < speed[HASH] ? speed[UNPACK] : speed[HASH];
	printf("%-26s %8.2f  (want 0.6)\n", "read / slowest part", speed[READ1] / slowest);
	printf("%-26s %8.2f  (what this machine gives)\n", "BLAKE2b, 2 threads / 1",
		speed[HASH2] / speed[HASH]);
	printf("%-26s %8.2f  (want 1.7)\n", "write, 2 threads / 1", speed[WRITE2] / speed[WRITE1]);
	printf("%-26s %8.2f  (want 1.7)\n", "read, 2 threads / 1", speed[READ2] / speed[READ1]);
	return 0;
}
