/* Any bytes are a gguf file or an error; what is read of one lies within it. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gguf_read.h"
#include "io/fd.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void use_keys(const struct gguf *g)
{
	char text[64];
	uint64_t whole;
	double real;
	bool yes;

	for (size_t i = 0; i < gguf_keys(g); i++) {
		const char *key = gguf_key(g, i);

		if (gguf_get_u64(g, key, &whole) == 0 || gguf_get_f64(g, key, &real) == 0 ||
		    gguf_get_bool(g, key, &yes) == 0 || gguf_get_count(g, key, &whole) == 0)
			abort(); /* it is there */
		if (gguf_get_text(g, key, text, sizeof text) > 0 && strlen(text) >= sizeof text)
			abort();
	}
}

static void use_tensors(const struct gguf *g)
{
	for (size_t i = 0; i < gguf_tensors(g); i++) {
		const struct gguf_tensor *t = gguf_tensor(g, i);
		const uint64_t width = t->shape.dim[t->shape.rank - 1];
		float *row = malloc(width * sizeof *row);

		if (!row || gguf_find(g, t->shape.name) != t)
			abort();
		if (gguf_read_rows(g, t, t->shape.count / width - 1, row, 1) < 0)
			abort();
		free(row);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct gguf *g = NULL;
	int fd = memfd_create("gguf", MFD_CLOEXEC);

	if (fd < 0 || fd_write(fd, data, n) < 0)
		abort();
	if (gguf_open(&g, fd, "f") == 0) {
		use_keys(g);
		use_tensors(g);
		gguf_close(g);
	} else if (strncmp(err_text(), "f: ", 3) != 0) {
		abort();
	}
	close(fd);
	return 0;
}
