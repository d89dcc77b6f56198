#include "form/corpus.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/bytes.h"
#include "form/frame.h"
#include "form/ids.h"
#include "io/fd.h"

#define PORTION 65536 /* bytes read at a time */

/* A stretch of the corpus in one file. */
struct segment {
	int fd;
	bool ours;              /* a temporary file, to be closed */
	const char *name;
	uint64_t offset;        /* bytes into the file */
	uint64_t first, tokens; /* its place in the corpus */
};

struct corpus {
	struct corpus_conf conf;
	struct segment *v;
	size_t n;
	uint64_t tokens;
	size_t width; /* bytes a token takes in the files */
	uint8_t portion[PORTION];
};

static void push(struct corpus *c, struct segment s)
{
	s.first = c->tokens;
	c->tokens += s.tokens;
	c->v[c->n++] = s;
}

/* To train on the bytes of a compressed, signed file is a mistake that nothing later would show. */
static int refuse_sealed(const struct segment *s)
{
	int rc = frame_begins(s->fd, s->offset);

	if (rc <= 0)
		return rc;
	return err_set(ERR_DATA, "is a sealed file, not text or ids: a shard is used as it is, and dl-data -d "
		       "prints what is in it");
}

/* An input that holds tokens as they are. */
static int add_plain(struct corpus *c, const struct corpus_input *in)
{
	struct segment s = { .name = in->name };
	uint64_t size = 0;
	off_t offset;
	int rc = fd_random(in->fd, &s.fd);

	if (rc < 0)
		return rc;
	s.ours = s.fd != in->fd;
	if (!fd_regular(s.fd, &size) || (offset = lseek(s.fd, 0, SEEK_CUR)) < 0) {
		rc = err_sys("seek");
		goto fail;
	}
	s.offset = (uint64_t)offset;
	size -= s.offset < size ? s.offset : size;
	if ((rc = refuse_sealed(&s)) < 0)
		goto fail;
	if (size % c->width) {
		rc = err_set(ERR_DATA, "%" PRIu64 " bytes are not whole ids of %zu bytes", size, c->width);
		goto fail;
	}
	s.tokens = size / c->width;
	push(c, s);
	return 0;
fail:
	if (s.ours)
		close(s.fd);
	return rc;
}

static int write_ids(struct segment *s, const uint32_t *id, size_t n, uint8_t *packed)
{
	int rc;

	for (size_t i = 0; i < n; i++)
		le32_put(packed + 4 * i, id[i]);
	rc = fd_write(s->fd, packed, 4 * n);
	s->tokens += n;
	return rc < 0 ? err_at(rc, "temporary file") : 0;
}

static int copy_ids(struct corpus *c, const struct corpus_input *in, struct segment *s, uint32_t *id,
		    uint8_t *packed)
{
	struct ids p = { .vocab = c->conf.vocab, .ends = c->conf.ends, .end = c->conf.end };
	size_t n;
	ssize_t got;
	int rc = 0;

	while (rc == 0 && (got = fd_read(in->fd, c->portion, PORTION)) != 0) {
		if (got < 0)
			return (int)got;
		rc = ids_parse(&p, id, &n, (const char *)c->portion, (size_t)got);
		if (rc == 0)
			rc = write_ids(s, id, n, packed);
	}
	if (rc == 0)
		rc = ids_end(&p, id, &n);
	return rc < 0 ? rc : write_ids(s, id, n, packed);
}

/* An input of text: its ids go to a temporary file. */
static int add_ids(struct corpus *c, const struct corpus_input *in)
{
	struct segment s = { .ours = true, .name = in->name };
	uint32_t *id = malloc((PORTION + 2) * sizeof *id);
	uint8_t *packed = malloc((PORTION + 2) * sizeof *id);
	int rc = id && packed ? fd_temporary(&s.fd) : err_nomem();

	if (rc == 0) {
		rc = copy_ids(c, in, &s, id, packed);
		if (rc == 0)
			push(c, s);
		else
			close(s.fd);
	}
	free(packed);
	free(id);
	return rc;
}

int corpus_open(struct corpus **out, const struct corpus_conf *conf, const struct corpus_input *in, size_t n)
{
	static const size_t width[] = { [CORPUS_BYTES] = 1, [CORPUS_IDS] = 4, [CORPUS_U16] = 2,
					[CORPUS_U32] = 4 };
	struct corpus *c = calloc(1, sizeof *c);
	int rc = 0;

	if (c)
		c->v = calloc(n + 1, sizeof *c->v);
	if (!c || !c->v) {
		free(c);
		return err_nomem();
	}
	c->conf = *conf;
	c->width = width[conf->format];
	for (size_t i = 0; rc == 0 && i < n; i++) {
		rc = conf->format == CORPUS_IDS ? add_ids(c, &in[i]) : add_plain(c, &in[i]);
		if (rc < 0)
			rc = err_at(rc, "%s", in[i].name);
	}
	if (rc < 0) {
		corpus_close(c);
		return rc;
	}
	*out = c;
	return 0;
}

void corpus_close(struct corpus *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->n; i++)
		if (c->v[i].ours)
			close(c->v[i].fd);
	free(c->v);
	free(c);
}

uint64_t corpus_tokens(const struct corpus *c)
{
	return c->tokens;
}

/* The segment that holds token `at`, which is there. */
static const struct segment *find(const struct corpus *c, uint64_t at)
{
	size_t low = 0, high = c->n; /* first of low <= at < first of high */

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (c->v[middle].first <= at)
			low = middle;
		else
			high = middle;
	}
	return &c->v[low];
}

/* Up to n ids from one segment; how many. */
static int read_portion(struct corpus *c, uint32_t *out, uint64_t at, size_t n)
{
	const struct segment *s = find(c, at);
	uint64_t skip = at - s->first;
	ssize_t got;
	int rc;

	if (n > s->tokens - skip)
		n = (size_t)(s->tokens - skip);
	if (n > PORTION / c->width)
		n = PORTION / c->width;
	got = fd_read_at(s->fd, c->portion, n * c->width, s->offset + skip * c->width);
	if (got < 0)
		return err_at((int)got, "%s", s->name);
	if ((size_t)got < n * c->width)
		return err_set(ERR_DATA, "%s: became shorter while it was read", s->name);
	rc = ids_unpack(out, c->portion, c->width, n, c->conf.vocab, skip);
	return rc < 0 ? err_at(rc, "%s", s->name) : (int)n;
}

int corpus_read(struct corpus *c, uint32_t *out, uint64_t at, size_t n)
{
	if (at > c->tokens || n > c->tokens - at)
		return err_set(ERR_DATA, "the corpus has %" PRIu64 " tokens, not %zu from %" PRIu64,
			       c->tokens, n, at);
	while (n) {
		int rc = read_portion(c, out, at, n);

		if (rc < 0)
			return rc;
		out += rc;
		at += (uint64_t)rc;
		n -= (size_t)rc;
	}
	return 0;
}
