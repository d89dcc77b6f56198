#include "round/routed.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "math/model_conf.h"
#include "round/fields.h"

uint32_t routed_experts(const struct tensors *layout)
{
	uint32_t layer, expert, most = 0;

	for (size_t t = 0; t < layout->n; t++)
		if (model_expert(layout->v[t].name, &layer, &expert) && expert >= most)
			most = expert + 1;
	return most;
}

void routed_map(uint32_t *route, const struct tensors *layout, uint32_t experts)
{
	uint32_t layer, expert;

	for (size_t t = 0; t < layout->n; t++)
		route[t] = model_expert(layout->v[t].name, &layer, &expert) ? layer * experts + expert : ROUTED_NONE;
}

void routed_add(uint64_t *count, const uint32_t *route, const uint64_t *load, size_t tensors)
{
	for (size_t t = 0; t < tensors; t++)
		if (route[t] != ROUTED_NONE)
			count[t] += load[route[t]];
}

/* The tensors of a table that have a count, one after the other. */
struct walk {
	const struct tensors *layout;
	size_t t;               /* the next to look at */
	uint32_t layer, expert; /* of the one before */
	bool begun;
};

/* 1 and the next tensor of an expert, 2 when it is of another expert than the one before; 0 at the end. */
static int walk_on(struct walk *w, size_t *tensor)
{
	const struct walk before = *w;

	for (; w->t < w->layout->n; w->t++)
		if (model_expert(w->layout->v[w->t].name, &w->layer, &w->expert)) {
			bool same = before.begun && before.layer == w->layer && before.expert == w->expert;

			w->begun = true;
			*tensor = w->t++;
			return same ? 1 : 2;
		}
	return 0;
}

int routed_write(struct conf *to, const char *key, const struct tensors *layout, const uint64_t *count)
{
	struct walk w = { .layout = layout };
	struct buf line = BUF_INIT;
	int is, rc = 0;
	size_t t;

	while (rc == 0 && (is = walk_on(&w, &t)) > 0)
		if (is == 2)
			rc = buf_fmt(&line, "%s%" PRIu64, line.len ? " " : "", count[t]);
	if (rc == 0 && line.len)
		rc = conf_set(to, key, line.data);
	buf_release(&line);
	return rc;
}

static int read_count(uint64_t *out, char **rest, uint64_t most)
{
	const char *word = fields_next(rest);
	int rc;

	if (!word)
		return err_set(ERR_DATA, "fewer counts than experts");
	if ((rc = num_u64(word, out)) < 0)
		return rc;
	return *out <= most ? 0 : err_set(ERR_DATA, "%" PRIu64 " of %" PRIu64 " tokens", *out, most);
}

static int read_counts(uint64_t *count, char *line, const struct tensors *layout, uint64_t most)
{
	struct walk w = { .layout = layout };
	uint64_t now = 0;
	size_t t;
	int is, rc = 0;

	while (rc == 0 && (is = walk_on(&w, &t)) > 0) {
		if (is == 2)
			rc = read_count(&now, &line, most);
		count[t] = now;
	}
	if (rc == 0 && line)
		rc = err_set(ERR_DATA, "more counts than experts");
	return rc;
}

int routed_read(uint64_t *count, const struct conf *from, const char *key, const struct tensors *layout, uint64_t most)
{
	const char *text = conf_get(from, key);
	char *line = text ? strdup(text) : NULL;
	int rc;

	if (!text)
		return 0;
	if (!line)
		return err_nomem();
	rc = read_counts(count, line, layout, most);
	free(line);
	return rc < 0 ? err_at(rc, "key '%s'", key) : 1;
}
