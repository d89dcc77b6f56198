/*
 * inject_list - the processes that are to run and to be broken: one a line.
 *
 *     NAME COMMAND WORD...        quoted as in base/words.h; '#' starts a comment
 *
 * NAME is 1 to 64 of A-Z a-z 0-9 . _ -. A command whose program is called dl-sync or dl-learn and that has an
 * option -r takes part in that run; dl-learn then has an option -i, too. All must be of one run, and no two
 * learners of one name.
 */
#ifndef INJECT_LIST_H
#define INJECT_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/words.h"

#define INJECT_PROCESSES 1000
#define INJECT_TEXT ((size_t)4 << 20) /* longest list */

struct inject_process {
	char *name, *path;   /* path: of the executable */
	struct words words;
	bool syncer;         /* of the run */
	char *learner;       /* its name in the run, or NULL */
	size_t run_word, run_at; /* where the run directory stands in words, of those that take part */
};
struct inject_list {
	struct inject_process *v; /* (n) */
	size_t n;
	char *run; /* the run directory, absolute; NULL: they are of no run */
};
/* Lines into an empty list. ERR_USAGE: "line 3: ...". inject_list_release in any case. */
int inject_list_parse(struct inject_list *l, const char *text, size_t n) ERR_MUST;
/* The same of a file, "-" for standard input, which errors name. */
int inject_list_read(struct inject_list *l, const char *path) ERR_MUST;
/* One command, which is called as its program is. Of dl-run not itself but what it would start: it is asked with
 * --print, which makes the run. */
int inject_list_command(struct inject_list *l, char *const *words, size_t n) ERR_MUST;
/* spared (n) becomes false for those that `names`, with commas between, has; NULL: for all. ERR_USAGE. */
int inject_list_choose(const struct inject_list *l, const char *names, bool *spared) ERR_MUST;
void inject_list_release(struct inject_list *l);
/* The command's words name another run directory from now on. */
int inject_list_move(struct inject_process *p, const char *run) ERR_MUST;

#endif
