#include "round/hire.h"

#include <stdlib.h>
#include <string.h>

#include "base/pool.h"
#include "base/words.h"
#include "io/tool.h"
#include "round/dataset.h"

struct hire_post { /* the words of one, and what they point to */
	struct hire_post *next;
	struct tool_command words;
	char name[32], part[DATASET_PATH], log[64];
	char *shard;
};

static struct hire_post *new_post(struct hire *h, const char *program)
{
	struct hire_post *p = calloc(1, sizeof *p);

	if (!p)
		return NULL;
	p->next = h->post;
	h->post = p;
	tool_add(&p->words, program);
	tool_add_pair(&p->words, "-r", h->root ? h->root : ".");
	return p;
}

static int hire_syncer(struct hire *h, struct crew *c)
{
	struct hire_post *p = new_post(h, "dl-sync");

	if (!p)
		return err_nomem();
	tool_add_pair(&p->words, "-k", h->key);
	tool_add_pair(&p->words, "--trust", h->trust);
	return crew_add(c, "syncer", h->sync, p->words.v, HIRE_LOG "/syncer.log");
}

static int hire_learner(struct hire *h, struct crew *c, unsigned k)
{
	const uint64_t cpus = (uint64_t)pool_cpus(), share = cpus > h->learners ? cpus / h->learners : 1;
	struct hire_post *p = new_post(h, "dl-learn");

	if (!p)
		return err_nomem();
	snprintf(p->name, sizeof p->name, "learner-%u", k);
	snprintf(p->log, sizeof p->log, HIRE_LOG "/learner-%u.log", k);
	dataset_part(p->part, (unsigned)h->learners, k);
	if (asprintf(&p->shard, "%s%s%s", h->root ? h->root : "", h->root ? "/" : "", p->part) < 0) {
		p->shard = NULL;
		return err_nomem();
	}
	tool_add_pair(&p->words, "-i", p->name);
	tool_add_pair(&p->words, "-d", p->shard);
	tool_add_count(&p->words, "-j", h->threads ? h->threads : share);
	tool_add_count(&p->words, "-B", h->batch);
	tool_add_count(&p->words, "-T", h->context);
	tool_add_pair(&p->words, "-k", h->key);
	tool_add_pair(&p->words, "--trust", h->trust);
	return crew_add(c, p->name, h->learn, p->words.v, p->log);
}

int hire_all(struct hire *h, struct crew *c)
{
	int rc = hire_syncer(h, c);

	for (unsigned k = 0; rc == 0 && k < h->learners; k++)
		rc = hire_learner(h, c, k);
	return rc;
}

int hire_print(const struct crew *c, FILE *to)
{
	struct buf text = BUF_INIT;
	int rc = 0;

	for (const struct crew_member *m = c->v; rc == 0 && m < c->v + c->n; m++)
		if ((rc = buf_fmt(&text, "%s ", m->name)) == 0 && (rc = words_quote(&text, m->path)) == 0 &&
		    (rc = words_join(&text, m->words + 1)) == 0)
			rc = buf_str(&text, "\n");
	if (rc == 0)
		fputs(text.data, to);
	buf_release(&text);
	return rc;
}

int hire_printable(const struct hire *h)
{
	const char *const names[] = { h->root, h->key, h->trust, h->learn, h->sync };
	char shown[256];

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (names[i] && strchr(names[i], '\n')) {
			say_escape(shown, sizeof shown, names[i]);
			return err_set(ERR_USAGE, "%s: a line ends within this name, and --print has a command on each:"
				" choose another name", shown);
		}
	return 0;
}

void hire_release(struct hire *h)
{
	for (struct hire_post *p = h->post; p; p = h->post) {
		h->post = p->next;
		free(p->shard);
		free(p);
	}
}
