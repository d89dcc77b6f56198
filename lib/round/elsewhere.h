/*
 * elsewhere - learners of a crew whose names other processes use: two on different hosts that were started again
 * and again would take a name back from each other for ever.
 *
 * One that leaves with status 4 was superseded or locked out by such a process, or it has lost its syncer; and its
 * log, which the other may write to as well, does not tell which. But its beat does: one that goes on, though ours
 * has left, is of another process. As long as it does, ours is not started again; once it has said that it leaves,
 * or is silent for the run's lease, the name is free.
 */
#ifndef ELSEWHERE_H
#define ELSEWHERE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/say.h"
#include "io/crew.h"
#include "round/view.h"

struct elsewhere_name {
	unsigned starts;               /* of the crew's member: what follows is of the last one */
	uint64_t incarnation, counter; /* of the beat, when last looked at */
	double since;                  /* when it was found at work elsewhere, by the crew's clock; negative: not */
	bool told;
};
struct elsewhere {
	struct elsewhere_name *v; /* (n) */
	size_t n;
};

int elsewhere_init(struct elsewhere *e, size_t members) ERR_MUST;
void elsewhere_release(struct elsewhere *e);
/* After each view_read and before the crew_tend that follows: holds those members back, from `first` on, and warns,
 * once of each. */
void elsewhere_look(struct elsewhere *e, struct crew *c, size_t first, const struct view *v, struct say *say);
/* For so many seconds; negative: it is not. */
double elsewhere_for(const struct elsewhere *e, const struct crew *c, size_t member);

#endif
