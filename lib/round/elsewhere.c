#include "round/elsewhere.h"

#include <stdlib.h>

#define NOT_YET 4        /* exit status */
#define BEAT_SURELY 5.0  /* seconds in which one that lives has a new beat */

int elsewhere_init(struct elsewhere *e, size_t members)
{
	*e = (struct elsewhere){ calloc(members + 1, sizeof *e->v), members };
	if (!e->v)
		return err_nomem();
	for (size_t i = 0; i < members; i++)
		e->v[i].since = -1;
	return 0;
}

void elsewhere_release(struct elsewhere *e)
{
	free(e->v);
	*e = (struct elsewhere){ NULL, 0 };
}

static bool was_put_off(const struct crew_member *m)
{
	return m->state == CREW_PAUSED && m->starts && proc_exit_status(&m->proc) == NOT_YET;
}

static void look(struct elsewhere_name *e, struct crew *c, struct crew_member *m, const struct view *v,
	struct say *say)
{
	const struct view_learner *l = view_learner(v, m->name);
	const struct beat *b = l && l->beat.fragment ? &l->beat : NULL;
	bool first = e->starts != m->starts;
	bool moved = b && (b->incarnation != e->incarnation || b->counter != e->counter);

	if (!was_put_off(m)) {
		e->since = -1;
		return;
	}
	e->starts = m->starts;
	if (moved) {
		e->incarnation = b->incarnation;
		e->counter = b->counter;
	}
	if (first) {
		crew_hold(c, m, BEAT_SURELY);
	} else if (moved && b->state != BEAT_GONE) {
		crew_hold(c, m, v->manifest.lease);
		e->since = e->since < 0 ? clock_now(&c->clock) : e->since;
		if (!e->told)
			say_warn(say, "%s is at work elsewhere: another process has this name, and keeps it until it"
				" leaves; learners of another machine need names of their own (dl-learn -i)", m->name);
		e->told = true;
	}
}

void elsewhere_look(struct elsewhere *e, struct crew *c, size_t first, const struct view *v, struct say *say)
{
	for (size_t i = first; i < e->n; i++)
		look(&e->v[i], c, &c->v[i], v, say);
}

double elsewhere_for(const struct elsewhere *e, const struct crew *c, size_t member)
{
	double since = e->v[member].since;

	return since < 0 ? -1 : clock_now(&c->clock) - since;
}
