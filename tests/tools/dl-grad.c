/*
 * dl-grad CKPT IDS OUT - what the model computes of the token ids in the text file IDS, a sequence of equal
 * length a line: OUT is the loss (f64, without that of the router), the logits of the first sequence (T, V),
 * and the gradient of every tensor in the order of the table, all f32, little-endian. Any seal will do.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "form/ids.h"
#include "io/fd.h"
#include "round/checkpoint.h"

#define IDS 65536

struct batch { uint32_t *ids; int B, T; };

/* B lines of T + 1 ids. */
static int read_ids(struct batch *b, const char *path, uint32_t vocab)
{
	struct ids p = { .vocab = vocab };
	struct buf text = BUF_INIT;
	size_t n = 0, rest = 0;
	int fd, rc = fd_open_in(path, &fd);

	if (rc < 0)
		return rc;
	rc = fd_slurp(fd, IDS, &text);
	close(fd);
	b->ids = malloc((IDS + 3) * sizeof *b->ids);
	if (rc == 0)
		rc = b->ids ? ids_parse(&p, b->ids, &n, text.data, text.len) : err_nomem();
	if (rc == 0)
		rc = ids_end(&p, b->ids + n, &rest);
	buf_release(&text);
	n += rest;
	b->B = (int)p.line;
	b->T = b->B ? (int)(n / p.line) - 1 : 0;
	if (rc == 0 && (b->T < 1 || (size_t)b->B * (size_t)(b->T + 1) != n))
		rc = err_set(ERR_DATA, "%s: lines are not of one length", path);
	return rc;
}

static int write_logits(struct model *m, const struct batch *b, uint32_t vocab, FILE *out)
{
	real *logits = malloc(vocab * sizeof *logits);
	int rc = logits ? 0 : err_nomem();

	for (int n = 1; rc == 0 && n <= b->T; n++) {
		rc = model_logits(m, logits, b->ids, n);
		if (rc == 0)
			fwrite(logits, sizeof *logits, vocab, out);
	}
	free(logits);
	return rc;
}

static int write_out(struct model *m, const struct batch *b, uint32_t vocab, FILE *out)
{
	double loss;
	int rc = model_backward(m, &loss, b->ids, b->B, b->T);

	if (rc < 0)
		return rc;
	fwrite(&loss, sizeof loss, 1, out);
	rc = write_logits(m, b, vocab, out);
	if (rc == 0)
		rc = model_backward(m, &loss, b->ids, b->B, b->T);
	if (rc == 0)
		fwrite(model_grads(m), sizeof(real), model_size(m), out);
	return rc;
}

static int run(char **word)
{
	struct batch b = { .ids = NULL };
	struct frame_reader *r = NULL;
	struct model *m = NULL;
	struct checkpoint c;
	FILE *out = NULL;
	int fd, rc = fd_open_in(word[1], &fd);

	if (rc == 0)
		rc = frame_open(&r, fd, word[1], NULL, NULL);
	if (rc == 0)
		rc = checkpoint_open(&c, r);
	if (rc == 0)
		rc = checkpoint_load(&m, &c, r, true, NULL);
	if (rc == 0)
		rc = read_ids(&b, word[2], c.model.vocab);
	if (rc == 0 && !(out = fopen(word[3], "wb")))
		rc = err_sys("%s", word[3]);
	if (rc == 0)
		rc = write_out(m, &b, c.model.vocab, out);
	if (out && fclose(out) != 0 && rc == 0)
		rc = err_sys("%s", word[3]);
	free(b.ids);
	if (m)
		model_close(m);
	frame_reader_free(r);
	return rc;
}

int main(int argc, char **argv)
{
	if (argc != 4 || run(argv) < 0) {
		fprintf(stderr, "dl-grad: %s\n", argc == 4 ? err_text() : "CKPT IDS OUT");
		return 1;
	}
	return 0;
}
