/*
 * warn - what one who watches a run on his machine is warned of: it goes on all the same.
 *
 * `run` is what he calls it.
 */
#ifndef WARN_H
#define WARN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/say.h"
#include "round/view.h"

/* More answers are needed than learners start here: those of other machines may join. */
void warn_quorum(const struct manifest *m, uint64_t learners, const char *run, struct say *say);
/* Its file system became full, or is no longer: is it full now? */
bool warn_room(const struct view *v, bool was_full, const char *run, struct say *say);
/* At the end: rounds took too many steps for fragments to be merged as often as was asked for. */
void warn_pace(const struct view *v, const char *run, struct say *say);

#endif
