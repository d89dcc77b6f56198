/*
 * dl-gguf FILE - its keys and tensors, one a line: "key NAME VALUE" (of arrays the length), "tensor NAME TYPE
 * SHAPE".
 * dl-gguf FILE TENSOR - the values of a tensor, a row a line.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/num.h"
#include "gguf_read.h"
#include "io/fd.h"

static void print_key(const struct gguf *g, const char *key)
{
	char text[256];
	uint64_t whole;
	double real;
	bool yes;

	if (gguf_get_u64(g, key, &whole) > 0)
		printf("key %s %" PRIu64 "\n", key, whole);
	else if (gguf_get_f64(g, key, &real) > 0)
		printf("key %s %g\n", key, real);
	else if (gguf_get_bool(g, key, &yes) > 0)
		printf("key %s %s\n", key, yes ? "true" : "false");
	else if (gguf_get_text(g, key, text, sizeof text) > 0)
		printf("key %s %s\n", key, text);
	else if (gguf_get_count(g, key, &whole) > 0)
		printf("key %s [%" PRIu64 "]\n", key, whole);
}

static void print_table(const struct gguf *g)
{
	char shape[96];

	for (size_t i = 0; i < gguf_keys(g); i++)
		print_key(g, gguf_key(g, i));
	for (size_t i = 0; i < gguf_tensors(g); i++) {
		const struct gguf_tensor *t = gguf_tensor(g, i);

		tensor_shape_text(&t->shape, shape);
		printf("tensor %s %s %s\n", t->shape.name, gguf_type_name(t->type), shape);
	}
}

static int print_values(const struct gguf *g, const char *name)
{
	const struct gguf_tensor *t = gguf_find(g, name);
	const uint64_t width = t ? t->shape.dim[t->shape.rank - 1] : 1;
	float *row = malloc(width * sizeof *row);
	char text[32];
	int rc = t && row ? 0 : err_set(ERR_DATA, "no tensor '%s'", name);

	for (uint64_t r = 0; rc == 0 && r < t->shape.count / width; r++) {
		rc = gguf_read_rows(g, t, r, row, 1);
		for (uint64_t i = 0; rc == 0 && i < width; i++) {
			num_f32_text(text, row[i]);
			printf("%s%s", i ? " " : "", text);
		}
		putchar('\n');
	}
	free(row);
	return rc;
}

int main(int argc, char **argv)
{
	struct gguf *g = NULL;
	int fd, rc = argc > 1 ? fd_open_in(argv[1], &fd) : err_set(ERR_USAGE, "FILE [TENSOR]");

	if (rc == 0)
		rc = gguf_open(&g, fd, argv[1]);
	if (rc == 0 && argc > 2)
		rc = print_values(g, argv[2]);
	else if (rc == 0)
		print_table(g);
	gguf_close(g);
	if (rc < 0)
		fprintf(stderr, "dl-gguf: %s\n", err_text());
	return rc < 0;
}
