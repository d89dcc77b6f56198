#include "chaos/inject_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "form/key.h"
#include "io/fd.h"
#include "io/proc.h"
#include "io/tool.h"
#include "round/rundir.h"

static void release_process(struct inject_process *p)
{
	free(p->name);
	free(p->path);
	free(p->learner);
	words_release(&p->words);
}

void inject_list_release(struct inject_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		release_process(&l->v[i]);
	free(l->v);
	free(l->run);
	*l = (struct inject_list){ 0 };
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* ---- what takes part in a run ---- */

/* The value of an option as "-r X", "-rX", "--run X" or "--run=X": its word and where it begins there. */
static const char *option(const struct words *w, const char *letter, const char *name, size_t *word, size_t *at)
{
	size_t n = strlen(name);

	for (size_t i = 1; i < w->n && strcmp(w->v[i], "--") != 0; i++) {
		const char *t = w->v[i];

		*at = 0;
		*word = i + 1;
		if (strcmp(t, letter) == 0 || strcmp(t, name) == 0)
			return i + 1 < w->n ? w->v[i + 1] : NULL;
		*word = i;
		*at = strncmp(t, letter, 2) == 0 ? 2 : strncmp(t, name, n) == 0 && t[n] == '=' ? n + 1 : 0;
		if (*at)
			return t + *at;
	}
	return NULL;
}

/* The run of this one is that of the others. */
static int join(struct inject_list *l, const char *run)
{
	char *absolute, *same;
	int rc = rundir_absolute(run, &absolute);

	if (rc < 0)
		return rc;
	same = realpath(absolute, NULL);
	free(absolute);
	if (!same)
		return err_sys("%s", run);
	if (l->run && strcmp(l->run, same) != 0)
		rc = err_set(ERR_USAGE, "a second run, '%s': all processes must be of one", run);
	else if (!l->run) {
		l->run = same;
		same = NULL;
	}
	free(same);
	return rc;
}

static int recognise(struct inject_list *l, struct inject_process *p)
{
	const char *program = base_name(p->words.v[0]), *run, *name;
	bool learner = strcmp(program, "dl-learn") == 0;
	size_t word, at;

	if (!learner && strcmp(program, "dl-sync") != 0)
		return 0;
	run = option(&p->words, "-r", "--run", &p->run_word, &p->run_at);
	if (!run)
		return 0;
	p->syncer = !learner;
	if (!learner)
		return join(l, run);
	name = option(&p->words, "-i", "--id", &word, &at);
	if (!name || key_name_check("learner", name) < 0)
		return err_set(ERR_USAGE, "%s: give the learner a name of its own with -i", p->name);
	for (size_t i = 0; i + 1 < l->n; i++)
		if (l->v[i].learner && strcmp(l->v[i].learner, name) == 0)
			return err_set(ERR_USAGE, "%s: learner '%s' is %s already", p->name, name, l->v[i].name);
	p->learner = strdup(name);
	return p->learner ? join(l, run) : err_nomem();
}

int inject_list_move(struct inject_process *p, const char *run)
{
	char *word = p->words.v[p->run_word], *moved;

	if (asprintf(&moved, "%.*s%s", (int)p->run_at, word, run) < 0)
		return err_nomem();
	free(word);
	p->words.v[p->run_word] = moved;
	return 0;
}

/* ---- lists ---- */

/* A process whose name and words are there. */
static int complete(struct inject_list *l, struct inject_process *p)
{
	int rc;

	for (size_t i = 0; i + 1 < l->n; i++)
		if (strcmp(l->v[i].name, p->name) == 0)
			return err_set(ERR_USAGE, "a second process called '%s'", p->name);
	rc = proc_find(&p->path, p->words.v[0]);
	if (rc < 0)
		return err_set(ERR_USAGE, "%s", err_text());
	if (p->words.n > PROC_ARGS - 10)
		return err_set(ERR_USAGE, "%s: more than %d words", p->name, PROC_ARGS - 10);
	return recognise(l, p);
}

static struct inject_process *append(struct inject_list *l)
{
	struct inject_process *more = realloc(l->v, (l->n + 1) * sizeof *more);

	if (!more)
		return NULL;
	l->v = more;
	more[l->n] = (struct inject_process){ .name = NULL };
	return &more[l->n++];
}

static int add_line(struct inject_list *l, const char *line, size_t len)
{
	struct words w = { 0 };
	struct inject_process *p;
	int rc = words_split(&w, line, len);

	if (rc < 0)
		return rc == ERR_DATA ? err_set(ERR_USAGE, "%s", err_text()) : rc;
	if (w.n == 0)
		return 0;
	p = l->n < INJECT_PROCESSES ? append(l) : NULL;
	if (!p) {
		words_release(&w);
		return l->n < INJECT_PROCESSES ? err_nomem() :
			err_set(ERR_USAGE, "more than %d processes", INJECT_PROCESSES);
	}
	p->name = w.v[0];
	p->words = w;
	memmove(w.v, w.v + 1, w.n * sizeof *w.v);
	p->words.n--;
	if (key_name_check("process", p->name) < 0)
		return err_set(ERR_USAGE, "%s", err_text());
	if (p->words.n == 0)
		return err_set(ERR_USAGE, "'%s' has no command: NAME COMMAND WORD...", p->name);
	return complete(l, p);
}

int inject_list_parse(struct inject_list *l, const char *text, size_t n)
{
	const char *end = text + n;
	int rc = 0, number = 1;

	for (; rc == 0 && text < end; number++) {
		const char *line = memchr(text, '\n', (size_t)(end - text));
		size_t len = (size_t)((line ? line : end) - text);

		rc = add_line(l, text, len);
		if (rc < 0)
			return err_at(rc, "line %d", number);
		text += len + 1;
	}
	return l->n ? 0 : err_set(ERR_USAGE, "no process: one a line, NAME COMMAND WORD...");
}

int inject_list_read(struct inject_list *l, const char *path)
{
	struct buf text = BUF_INIT;
	int rc = fd_slurp_path(path, INJECT_TEXT, &text);

	if (rc == 0 && (rc = inject_list_parse(l, text.data ? text.data : "", text.len)) < 0)
		err_at(rc, "%s", fd_name(path));
	buf_release(&text);
	return rc;
}

/* What dl-run would start. */
static int ask_run(struct inject_list *l, char *const *words, size_t n)
{
	struct words asked = { 0 };
	struct buf text = BUF_INIT;
	int rc = words_add(&asked, words[0]);

	if (rc == 0)
		rc = words_add(&asked, "--print");
	for (size_t i = 1; rc == 0 && i < n; i++)
		rc = words_add(&asked, words[i]);
	if (rc == 0)
		rc = tool_read(&text, (const char *const *)asked.v, INJECT_TEXT);
	if (rc == 0 && (rc = inject_list_parse(l, text.data ? text.data : "", text.len)) < 0)
		err_at(rc, "%s --print", words[0]);
	words_release(&asked);
	buf_release(&text);
	return rc;
}

int inject_list_command(struct inject_list *l, char *const *words, size_t n)
{
	struct inject_process *p;
	int rc = 0;

	if (strcmp(base_name(words[0]), "dl-run") == 0)
		return ask_run(l, words, n);
	p = append(l);
	if (!p)
		return err_nomem();
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = words_add(&p->words, words[i]);
	if (rc < 0)
		return rc;
	p->name = strdup(base_name(words[0]));
	if (!p->name)
		return err_nomem();
	if (key_name_check("process", p->name) < 0) {
		free(p->name);
		p->name = strdup("process");
	}
	return p->name ? complete(l, p) : err_nomem();
}

int inject_list_choose(const struct inject_list *l, const char *names, bool *spared)
{
	char *copy = names ? strdup(names) : NULL, *at = copy, *one;
	int rc = names && !copy ? err_nomem() : 0;

	for (size_t i = 0; i < l->n; i++)
		spared[i] = names;
	while (rc == 0 && (one = strsep(&at, ","))) {
		size_t i = 0;

		while (i < l->n && strcmp(l->v[i].name, one) != 0)
			i++;
		if (i < l->n)
			spared[i] = false;
		else
			rc = err_set(ERR_USAGE, "there is no process '%.64s'", one);
	}
	free(copy);
	return rc;
}
