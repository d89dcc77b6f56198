#include "chaos/trace_line.h"

#include <stdio.h>
#include <string.h>

#include "base/say.h"

static const char *const modes[] = { "lockstep", "elastic", "diloco", "decoupled" };
static const char *const whys[] = { "down", "up", "restart", "merge" };

const char *const trace_keys[TRACE_KEYS] = { "learner", "fragment", "round", "version", "share", "steps", "tokens",
	"seconds", "why", "state", "invited", "answers" };
#define LEARNER TRACE_BIT(TRACE_LEARNER)
#define ROUND (TRACE_BIT(TRACE_ROUND) | TRACE_BIT(TRACE_FRAGMENT))
#define VERSION TRACE_BIT(TRACE_VERSION)
const struct trace_row trace_rows[TRACE_KINDS] = {
	[TRACE_JOIN] = { "join", LEARNER, 0 },
	[TRACE_GONE] = { "gone", LEARNER, 0 },
	[TRACE_LOST] = { "lost", LEARNER | TRACE_BIT(TRACE_STATE), 0 },
	[TRACE_BACK] = { "back", LEARNER, 0 },
	[TRACE_STOP] = { "stop", LEARNER | TRACE_BIT(TRACE_SECONDS) | TRACE_BIT(TRACE_REASON), 0 },
	[TRACE_STEP] = { "step", LEARNER, TRACE_BIT(TRACE_SHARE) },
	[TRACE_CALL] = { "call", ROUND | VERSION | TRACE_BIT(TRACE_INVITED), 0 },
	[TRACE_ANSWER] = { "answer", ROUND | LEARNER | TRACE_BIT(TRACE_STEPS) | TRACE_BIT(TRACE_TOKENS), 0 },
	[TRACE_MERGE] = { "merge", ROUND | VERSION | TRACE_BIT(TRACE_ANSWERS), 0 },
	[TRACE_ABANDON] = { "abandon", ROUND, 0 },
	[TRACE_ADOPT] = { "adopt", LEARNER | TRACE_BIT(TRACE_FRAGMENT) | VERSION, 0 },
};

const char *trace_mode_name(enum trace_mode m)
{
	return modes[m];
}

const char *trace_why_name(enum trace_why w)
{
	return whys[w];
}

/* Its index, or -1. */
static int find(const char *word, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(list[i], word) == 0)
			return (int)i;
	return -1;
}

int trace_not_so(const char *what, const char *text)
{
	char shown[120], cut[24];

	snprintf(cut, sizeof cut, "%s", text);
	say_escape(shown, sizeof shown, cut);
	return err_set(ERR_DATA, "'%s' is no %s", shown, what);
}

int trace_mode_parse(const char *name, enum trace_mode *m)
{
	int i = find(name, modes, sizeof modes / sizeof modes[0]);

	if (i < 0)
		return trace_not_so("mode: those are lockstep, elastic, diloco and decoupled", name);
	*m = (enum trace_mode)i;
	return 0;
}

int trace_why_parse(const char *name, enum trace_why *w)
{
	int i = find(name, whys, sizeof whys / sizeof whys[0]);

	if (i < 0)
		return trace_not_so("reason to stop", name);
	*w = (enum trace_why)i;
	return 0;
}
