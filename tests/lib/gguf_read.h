/*
 * gguf_read - the reader of form/gguf.h. No program needs one: tests see by it what was written, value by value.
 *
 * Whatever is in the file, it needs memory for a few rows of a tensor and for the table.
 */
#ifndef GGUF_READ_H
#define GGUF_READ_H

#include "form/gguf.h"

/* n values from the bytes of a type, as gguf_encode makes them. */
void gguf_decode(enum gguf_type t, float *out, const uint8_t *in, size_t n);

struct gguf;
struct gguf_tensor {
	struct tensor shape; /* outermost dimension first, as ours */
	enum gguf_type type;
	uint64_t offset;     /* in the file */
};

/*
 * Reads keys and table of a regular file; `name` is for messages, which begin with it. ERR_DATA: not a
 * gguf file, of another version or byte order, cut short, a type that is not above, a name or key given
 * twice, a tensor that lies outside of the file or in another. The descriptor stays the caller's.
 */
int gguf_open(struct gguf **out, int fd, const char *name) ERR_MUST;
void gguf_close(struct gguf *g);
size_t gguf_tensors(const struct gguf *g);
const struct gguf_tensor *gguf_tensor(const struct gguf *g, size_t i);
/* By name; or NULL. */
const struct gguf_tensor *gguf_find(const struct gguf *g, const char *name);
size_t gguf_keys(const struct gguf *g);
const char *gguf_key(const struct gguf *g, size_t i);
/* 1 and the value, 0 when the key is absent, ERR_DATA when it is of another type. Whole numbers of any
 * width, where they fit. */
int gguf_get_u64(const struct gguf *g, const char *key, uint64_t *out) ERR_MUST;
int gguf_get_f64(const struct gguf *g, const char *key, double *out) ERR_MUST;
int gguf_get_bool(const struct gguf *g, const char *key, bool *out) ERR_MUST;
/* At most cap - 1 bytes, escaped for people, and a NUL. */
int gguf_get_text(const struct gguf *g, const char *key, char *out, size_t cap) ERR_MUST;
/* Length of an array. */
int gguf_get_count(const struct gguf *g, const char *key, uint64_t *out) ERR_MUST;
/* n whole rows of a tensor from `row` on. */
int gguf_read_rows(const struct gguf *g, const struct gguf_tensor *t, uint64_t row, float *out, size_t n)
	ERR_MUST;

#endif
