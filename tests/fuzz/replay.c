/*
 * replay - runs a fuzz target without a fuzzer: on every seed in tests/fuzz/seeds/TARGET, and on
 * cut and altered copies of it that are the same in every run.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rng.h"
#include "io/fd.h"

#define SEED_LIMIT (1 << 20)
#define CUTS 64
#define CHANGES 256

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* A copy of exactly n bytes, so that a sanitizer sees one read too far. */
static void run(const void *data, size_t n)
{
	uint8_t *copy = calloc(1, n ? n : 1);

	if (!copy)
		abort();
	if (n)
		memcpy(copy, data, n);
	LLVMFuzzerTestOneInput(copy, n);
	free(copy);
}

static unsigned run_family(struct buf *seed)
{
	unsigned runs = 1;
	struct rng rng;

	rng_init(&rng, seed->len, rng_stream("replay"));
	run(seed->data, seed->len);
	for (int i = 0; i < CUTS && seed->len; i++, runs++)
		run(seed->data, rng_below(&rng, seed->len));
	for (int i = 0; i < CHANGES && seed->len; i++, runs++) {
		char *at = seed->data + rng_below(&rng, seed->len);
		char old = *at;

		*at = (char)(i % 2 ? rng_u32(&rng) : (uint32_t)old ^ 1u << rng_below(&rng, 8));
		run(seed->data, seed->len);
		*at = old;
	}
	return runs;
}

static unsigned run_file(const char *path)
{
	struct buf seed = BUF_INIT;
	unsigned runs = 0;
	int fd;

	if (fd_open_in(path, &fd) < 0) {
		fprintf(stderr, "%s\n", err_text());
		exit(2);
	}
	if (fd_slurp(fd, SEED_LIMIT, &seed) == 0)
		runs = run_family(&seed);
	close(fd);
	buf_release(&seed);
	return runs;
}

int main(int argc, char **argv)
{
	const char *name = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
	char directory[256], path[1024];
	struct dirent **entry;
	unsigned runs = 1;
	int n;

	for (int i = 1; i < argc; i++)
		run_file(argv[i]);
	if (argc > 1)
		return 0;
	run("", 0);
	snprintf(directory, sizeof directory, "tests/fuzz/seeds/%s", name);
	n = scandir(directory, &entry, NULL, alphasort);
	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof path, "%s/%s", directory, entry[i]->d_name);
		if (entry[i]->d_name[0] != '.')
			runs += run_file(path);
		free(entry[i]);
	}
	if (n >= 0)
		free(entry);
	printf("ok replay %s (%u inputs)\n", name, runs);
	return 0;
}
