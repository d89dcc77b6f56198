#include <stdio.h>

#include "chaos/gantt_inside.h"

static int make_lanes(struct gantt *g, const struct trace_head *h)
{
	char name[32];
	int rc = gantt_lane(g, "syncer");

	for (unsigned i = 0; i < h->learners && rc == 0; i++) {
		snprintf(name, sizeof name, "learner %u", i);
		rc = gantt_lane(g, name);
	}
	return rc;
}

static int event(struct gantt *g, const struct trace_event *e)
{
	unsigned lane = e->learner + 1;

	gantt_see(g, e->at);
	switch (e->kind) {
	case TRACE_JOIN:
	case TRACE_BACK:
		return gantt_up(g, lane, e->at);
	case TRACE_LOST:
	case TRACE_GONE:
		return gantt_down(g, lane, e->at, e->kind == TRACE_LOST);
	case TRACE_STOP:
		return gantt_bar(g, GANTT_STOPS, lane, e->at, e->at + e->seconds);
	case TRACE_ANSWER:
		return gantt_mark(g, GANTT_ANSWER, lane, e->at);
	case TRACE_ADOPT:
		return gantt_mark(g, GANTT_ADOPT, lane, e->at);
	case TRACE_MERGE:
		return gantt_mark(g, GANTT_MERGE, 0, e->at);
	default:
		return 0;
	}
}

int gantt_trace(struct gantt *g, struct trace_reader *r)
{
	struct trace_event e;
	int rc = make_lanes(g, trace_head(r));

	if (rc < 0)
		return rc;
	while ((rc = trace_next(r, &e)) == 1)
		if ((rc = event(g, &e)) < 0)
			return rc;
	return rc < 0 ? rc : gantt_end(g);
}
