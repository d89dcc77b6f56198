#include "chaos/meter.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "form/card.h"
#include "io/fd.h"
#include "round/beat.h"
#include "round/rundir.h"

#define STILL_LEAST 1.0 /* seconds */
#define STILL_TIMES 4.0

void meter_release(struct meter *m)
{
	free(m->gap);
	m->gap = NULL;
	m->gaps = 0;
}

bool meter_over(const struct meter *m)
{
	return m->headed && m->phase != PHASE_RUNNING;
}

void meter_ended(struct meter_learner *l)
{
	l->trains = false;
	l->past = l->life;
}

void meter_pass(struct meter *m, double now)
{
	double dt = now - m->now;
	size_t able = 0;

	if (!(dt > 0))
		return;
	m->now = now;
	if (meter_over(m))
		return;
	for (size_t i = 0; i < m->learners; i++) {
		struct meter_learner *l = &m->learner[i];

		if (l->trains && l->up && !l->stopped)
			l->trained += dt;
		able += l->trains && l->up && !l->paused && !l->cut;
	}
	m->seconds += dt;
	if (able < m->quorum)
		m->below += dt;
	else
		m->able += dt;
}

/* ---- looking ---- */

/* A sealed file without tensors: 1, or 0 when it can't be read now. Whose seal it is others judge. */
static int read_card(struct header *h, const char *path)
{
	struct sig_public signer;
	struct buf bytes = BUF_INIT;
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	int rc = fd < 0 ? ERR_IO : fd_slurp(fd, CARD_BYTES, &bytes);

	if (fd >= 0)
		close(fd);
	if (rc == 0)
		rc = card_parse(h, &signer, bytes.data ? bytes.data : "", bytes.len, path, NULL);
	buf_release(&bytes);
	return rc == ERR_NOMEM ? rc : rc == 0;
}

/* It trains once it has made a step in this life: since then as its step time tells. */
static void judge(struct meter *m, struct meter_learner *l, const struct beat *b)
{
	double since;

	l->step_seconds = b->step_seconds > 0 ? b->step_seconds : l->step_seconds;
	if (b->incarnation <= l->past || !l->up)
		return;
	if (b->incarnation != l->life || b->state != BEAT_RUNNING) {
		l->life = b->incarnation;
		l->steps = b->steps;
		l->trains = false;
		return;
	}
	if (l->trains || b->steps <= l->steps)
		return;
	l->trains = true;
	since = m->now - (double)(b->steps - l->steps) * b->step_seconds;
	if (since < l->started)
		since = l->started;
	l->starting += since - l->started;
	l->startings++;
	if (!meter_over(m))
		l->trained += m->now - since;
}

static int look_beat(struct meter *m, struct meter_learner *l)
{
	struct header h = { .keys = { 0 } };
	struct beat b = { .fragments = 0 };
	int rc = read_card(&h, l->beat);

	if (rc == 1 && (rc = beat_read(&b, &h, m->fragments)) == 0)
		judge(m, l, &b);
	beat_release(&b);
	header_release(&h);
	return rc == ERR_NOMEM ? rc : 0;
}

static int step_on(struct meter *m)
{
	double (*more)[2];

	if ((m->gaps & (m->gaps - 1)) == 0) {
		more = realloc(m->gap, (m->gaps ? 2 * m->gaps : 1) * sizeof *more);
		if (!more)
			return err_nomem();
		m->gap = more;
	}
	m->gap[m->gaps][0] = m->now - m->moved;
	m->gap[m->gaps++][1] = m->able;
	if (m->now - m->moved > m->stall) {
		m->stall = m->now - m->moved;
		m->stall_at = m->moved;
	}
	m->moved = m->now;
	m->able = 0;
	return 0;
}

static int look_head(struct meter *m)
{
	struct header h = { .keys = { 0 } };
	struct head head = { .fragments = 0 };
	int rc = read_card(&h, RUNDIR_HEAD);

	if (rc == 1 && (rc = head_read(&head, &h, m->fragments)) == 0) {
		if (!m->headed)
			m->moved = m->now; /* from here on */
		else if (head.step > m->step && !meter_over(m))
			rc = step_on(m);
		m->step = head.step;
		m->phase = head.phase;
		m->headed = true;
	}
	head_release(&head);
	header_release(&h);
	return rc == ERR_NOMEM ? rc : 0;
}

int meter_look(struct meter *m)
{
	int rc = meter_over(m) && m->phase == PHASE_DONE ? 0 : look_head(m);

	for (size_t i = 0; rc == 0 && i < m->learners; i++)
		rc = look_beat(m, &m->learner[i]);
	return rc;
}

/* ---- the end ---- */

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int meter_end(struct meter *m)
{
	double usual;
	int rc = meter_over(m) ? 0 : step_on(m); /* what it stood still until now */

	if (rc < 0 || !m->gaps)
		return rc;
	qsort(m->gap, m->gaps, sizeof *m->gap, compare);
	usual = STILL_TIMES * m->gap[m->gaps / 2][0];
	if (usual < STILL_LEAST)
		usual = STILL_LEAST;
	for (size_t i = 0; i < m->gaps; i++)
		if (m->gap[i][1] > usual)
			m->still += m->gap[i][1] - usual;
	return 0;
}
