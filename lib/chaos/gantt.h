/*
 * gantt - who did what when: a lane for each learner of a run and one for its syncer, as bars and marks over time; from
 * a trace or a tape, to a script for gnuplot.
 *
 *     gantt_trace, or gantt_tape
 *     gantt_script
 *     gantt_release
 *
 * A learner's lane has a bar while it trains, another over it while it has stopped, one while its process is dead,
 * and nothing when it is not there; marks are its answers, adoptions (of a trace only) and answers that came too
 * late (of a tape only). The syncer's has its merges, and, of a tape, a bar for each of its epochs; between these
 * a learner has a bar only where the later one shows that it went on.
 */
#ifndef GANTT_H
#define GANTT_H

#include <stdbool.h>

#include "chaos/trace.h"
#include "io/gnuplot.h"
#include "round/tape.h"

#define GANTT_LANES 256          /* that a picture can have */
#define GANTT_ITEMS (1 << 22)    /* bars and marks */

enum gantt_bar_kind { GANTT_TRAINS, GANTT_STOPS, GANTT_DEAD, GANTT_SYNCS, GANTT_BARS };
enum gantt_mark_kind { GANTT_ANSWER, GANTT_LATE, GANTT_ADOPT, GANTT_MERGE, GANTT_MARKS };

struct gantt_bar {
	unsigned lane;
	double from, to;
};
struct gantt_mark {
	unsigned lane;
	double at;
};
struct gantt_lane {
	char *name;
	bool up, dead;
	double since; /* up or dead */
};
/* Of one kind. */
struct gantt_bars {
	struct gantt_bar *v;
	size_t n, room;
};
struct gantt_marks {
	struct gantt_mark *v;
	size_t n, room;
};
struct gantt {
	double from, until;      /* what is outside is left out; infinite: nothing is */
	struct gantt_lane *lane; /* (lanes) number 0 is the syncer's */
	unsigned lanes;
	struct gantt_bars bars[GANTT_BARS];
	struct gantt_marks marks[GANTT_MARKS];
	double end;              /* the latest time seen */
};

/* Into one with from and until set and the rest zero. ERR_DATA for what has more lanes or items than a picture. */
int gantt_trace(struct gantt *g, struct trace_reader *r) ERR_MUST;
int gantt_tape(struct gantt *g, struct tape_reader *r) ERR_MUST;
void gantt_release(struct gantt *g);
int gantt_script(struct buf *out, const struct gantt *g, const struct gnuplot_page *page) ERR_MUST;

#endif
