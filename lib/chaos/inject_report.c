#include "chaos/inject_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "form/frame.h"
#include "io/place.h"
#include "round/audit.h"
#include "round/replay.h"
#include "round/rundir.h"

static const char *const names[INJECT_CHECKS] = { "finished", "replay", "ledger", "authentic" };

static void ERR_PRINTF(4, 5) conclude(struct inject_report *r, enum inject_check which, enum inject_verdict v,
	const char *fmt, ...)
{
	va_list ap;

	r->check[which].verdict = v;
	va_start(ap, fmt);
	vsnprintf(r->check[which].why, sizeof r->check[which].why, fmt, ap);
	va_end(ap);
}

/* An error says that a check is broken, unless it is of this machine. */
static int judge(struct inject_report *r, enum inject_check which, int rc)
{
	if (rc == 0 || (rc != ERR_AUTH && rc != ERR_DATA))
		return rc;
	conclude(r, which, INJECT_BROKEN, "%s", err_text());
	return 0;
}

/* ---- finished ---- */

static bool asked_to_stop(const struct inject_report *r)
{
	return r->result->end == INJECT_TIME || r->result->end == INJECT_SIGNAL;
}

static void check_processes(struct inject_report *r)
{
	size_t n = r->conf->list->n;

	for (size_t i = 0; i < n; i++)
		if (*r->result->process[i].how) {
			conclude(r, INJECT_FINISHED, INJECT_BROKEN, "%s: %s", r->conf->list->v[i].name,
				 r->result->process[i].how);
			return;
		}
	conclude(r, INJECT_FINISHED, INJECT_HOLDS, "all %zu processes", n);
}

static void check_run(struct inject_report *r, const struct audit *a)
{
	char path[RUNDIR_PATH];

	if (!a->headed || a->head.phase != PHASE_DONE)
		conclude(r, INJECT_FINISHED, INJECT_BROKEN, "the run is not over: %s",
			 a->headed ? phase_name(a->head.phase) : "it has no head");
	else if (access(rundir_ckpt(path, a->head.step), R_OK) < 0)
		conclude(r, INJECT_FINISHED, INJECT_BROKEN, "%s is not there", path);
	else
		conclude(r, INJECT_FINISHED, INJECT_HOLDS, "global step %" PRIu64 ", %s", a->head.step, path);
}

static void check_finished(struct inject_report *r, const struct audit *a)
{
	if (r->result->end == INJECT_HOPELESS)
		conclude(r, INJECT_FINISHED, INJECT_BROKEN, "%s", r->result->why);
	else if (asked_to_stop(r))
		conclude(r, INJECT_FINISHED, INJECT_UNASKED, "%s",
			 r->result->end == INJECT_TIME ? "it was time to stop" : "stopped by a signal");
	else if (a)
		check_run(r, a);
	else
		check_processes(r);
}

/* ---- replay and books ---- */

static int check_replay(struct inject_report *r, const struct trust *user)
{
	const struct replay_conf c = { .manifest = r->conf->manifest, .user = user };
	struct replay_report got = { 0 };
	int rc = judge(r, INJECT_REPLAY, replay_run(&c, &got, r->conf->say));

	if (rc == 0 && r->check[INJECT_REPLAY].verdict == INJECT_UNASKED)
		conclude(r, INJECT_REPLAY, INJECT_HOLDS, "%" PRIu64 " of %" PRIu64 " versions, bit for bit%s",
			 got.identical, got.versions, got.collected ? "; deltas of others are not kept" : "");
	return rc;
}

static int add_books(struct inject_report *r, const struct books *b)
{
	struct books_learner l;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < books_learners(b); i++) {
		if ((rc = books_learner(b, i, &l)) < 0)
			break;
		r->trained += l.trained;
		r->merged += l.merged;
		r->refused += l.refused;
		r->open += l.open;
		r->lost += l.lost;
		r->under_way += l.under_way;
		r->accepted += l.accepted;
		r->refusals += l.refusals;
		r->late += l.late;
		if (!l.balanced)
			conclude(r, INJECT_LEDGER, INJECT_BROKEN, "%s: %s", l.name, l.why);
	}
	if (rc == 0 && r->check[INJECT_LEDGER].verdict == INJECT_UNASKED)
		conclude(r, INJECT_LEDGER, INJECT_HOLDS, "%zu learner%s", books_learners(b),
			 books_learners(b) == 1 ? " balances" : "s balance");
	return rc;
}

static int check_books(struct inject_report *r, const struct audit *a)
{
	struct fragments f;
	struct books *b = NULL;
	int rc = fragments_cut(&f, &r->conf->manifest->layout, r->conf->manifest->fragments);

	if (rc < 0)
		return rc;
	rc = judge(r, INJECT_LEDGER, audit_books(a, &f, &b, r->conf->say));
	if (rc == 0 && b)
		rc = add_books(r, b);
	books_close(b);
	fragments_release(&f);
	return rc;
}

/* ---- authentic ---- */

struct walk {
	struct inject_report *r;
	const struct audit *audit;
	uint64_t accepted, kept; /* answers in merges, and those that are still there */
};

/* The file from its first byte to its last, and its identity. */
static int verify(const struct audit *a, int fd, const char *path, digest *id)
{
	struct frame_reader *reader = NULL;
	struct frame_slice s;
	int rc = frame_open(&reader, fd, path, &a->learners, NULL);

	while (rc == 0 && (rc = frame_next(reader, &s)) > 0)
		rc = 0;
	if (rc == 0)
		rc = frame_id(reader, id);
	frame_reader_free(reader);
	return rc;
}

static int check_answer(struct walk *w, const struct tape_answer *answer, unsigned fragment, uint64_t round)
{
	char path[RUNDIR_PATH];
	digest id;
	int fd, rc = place_open(rundir_delta(path, answer->learner, fragment, round), &fd);

	w->accepted++;
	if (rc <= 0)
		return rc;
	w->kept++;
	rc = verify(w->audit, fd, path, &id);
	if (rc == 0 && memcmp(id.b, answer->id.b, sizeof id.b) != 0)
		rc = err_set(ERR_AUTH, "%s: is not the file that was merged", path);
	close(fd);
	return judge(w->r, INJECT_AUTHENTIC, rc);
}

static int check_merge(struct walk *w, const struct tape_line *l)
{
	const char *at = tape_text(l, "answers");
	struct tape_answer answer;
	unsigned fragment;
	int rc = rundir_fragment_parse(tape_text(l, "fragment"), &fragment);

	while (rc == 0 && (rc = tape_answer_next(&answer, &at)) > 0)
		rc = check_answer(w, &answer, fragment, tape_u64(l, "round"));
	return rc;
}

static int check_authentic(struct inject_report *r, const struct audit *a)
{
	struct walk w = { .r = r, .audit = a };
	const struct tape_line *l;
	struct tape_reader *tape = NULL;
	int rc = audit_tape(a, &tape);

	while (rc == 0 && (rc = tape_read(tape, &l)) > 0)
		rc = strcmp(l->kind, "merge") == 0 ? check_merge(&w, l) : 0;
	tape_read_close(tape);
	rc = judge(r, INJECT_AUTHENTIC, rc);
	if (rc == 0 && r->check[INJECT_AUTHENTIC].verdict == INJECT_UNASKED)
		conclude(r, INJECT_AUTHENTIC, INJECT_HOLDS, "%" PRIu64 " of %" PRIu64 " accepted answers verified%s",
			 w.kept, w.accepted, w.kept < w.accepted ? "; others are not kept" : "");
	return rc;
}

int inject_report_make(struct inject_report *r, const struct inject_conf *c, const struct inject_result *result,
		       const struct trust *user)
{
	struct audit a;
	int rc;

	*r = (struct inject_report){ .conf = c, .result = result };
	if (!c->manifest) {
		check_finished(r, NULL);
		return 0;
	}
	rc = audit_open(&a, c->manifest, user);
	if (rc == ERR_AUTH) {
		rc = judge(r, INJECT_AUTHENTIC, rc);
	} else if (rc == 0) {
		check_finished(r, &a);
		rc = check_replay(r, user);
		if (rc == 0)
			rc = check_books(r, &a);
		if (rc == 0)
			rc = check_authentic(r, &a);
	}
	audit_close(&a);
	return rc;
}

int inject_report_broken(const struct inject_report *r)
{
	int n = 0;

	for (int i = 0; i < INJECT_CHECKS; i++)
		n += r->check[i].verdict == INJECT_BROKEN;
	return n;
}

/* ---- numbers ---- */

static double ratio(double a, double b)
{
	return b > 0 ? a / b : 0;
}

static double trained_time(const struct inject_report *r)
{
	double sum = 0;

	for (size_t i = 0; i < r->result->meter.learners; i++)
		sum += r->result->learner[i].trained;
	return sum;
}

static double allotted_time(const struct inject_report *r)
{
	return r->result->meter.seconds * (double)r->result->meter.learners;
}

/* A run may be over before anybody is seen to train, or have been over before it began: then its tokens are known, but
 * not its time. */
static bool is_timed(const struct inject_report *r)
{
	bool seen = false;

	for (size_t i = 0; i < r->result->meter.learners; i++)
		seen = seen || r->result->learner[i].startings;
	return r->result->meter.seconds > 0 && (seen || r->trained <= 0);
}

static uint64_t hits(const struct inject_report *r)
{
	uint64_t n = 0;

	for (int k = 0; k < FAULT_KINDS; k++)
		n += r->result->hit[k];
	return n;
}

/* The k-th process that is a learner has the k-th meter. */
static const struct meter_learner *meter_of(const struct inject_report *r, size_t process)
{
	size_t k = 0;

	if (!r->conf->manifest || !r->conf->list->v[process].learner)
		return NULL;
	for (size_t i = 0; i < process; i++)
		k += r->conf->list->v[i].learner != NULL;
	return &r->result->learner[k];
}

/* ---- for people ---- */

static const char *const verdicts[] = { "not asked", "holds", "BROKEN" };

static int text_checks(struct buf *out, const struct inject_report *r)
{
	int rc = 0;

	for (int i = 0; rc == 0 && i < INJECT_CHECKS; i++) {
		char shown[ERR_TEXT];

		say_escape(shown, sizeof shown, r->check[i].why);
		if (r->check[i].verdict || *shown)
			rc = buf_fmt(out, "%-14s %-10s %s\n", names[i], verdicts[r->check[i].verdict], shown);
	}
	return rc;
}

static int text_faults(struct buf *out, const struct inject_report *r)
{
	const char *between = "";
	char count[24];
	int rc;

	snprintf(count, sizeof count, "%" PRIu64, hits(r));
	rc = buf_fmt(out, "%-14s %-10s ", "faults", count);
	for (int k = 0; rc == 0 && k < FAULT_KINDS; k++)
		if (r->result->hit[k]) {
			rc = buf_fmt(out, "%s%s %" PRIu64, between, fault_kind_name((enum fault_kind)k),
				     r->result->hit[k]);
			between = ", ";
		}
	if (rc == 0 && r->result->absorbed)
		rc = buf_fmt(out, "%s%" PRIu64 " absorbed", *between ? "; " : "", r->result->absorbed);
	return rc < 0 ? rc : buf_str(out, "\n");
}

/* Who trains, and whether enough do. */
static int text_times(struct buf *out, const struct inject_report *r)
{
	const struct meter *m = &r->result->meter;
	char goodput[24], uptime[24], down[24];
	int rc;

	if (!is_timed(r))
		return buf_fmt(out, "%-14s %-10s nobody was seen to train in the %.1f s of the run\n%-14s not known\n"
			"%-14s not known\n", "goodput", "not known", m->seconds, "uptime", "downtime");
	snprintf(goodput, sizeof goodput, "%.1f %%", 100 * ratio(trained_time(r), allotted_time(r)));
	snprintf(uptime, sizeof uptime, "%.1f %%", 100 * (1 - ratio(m->below, m->seconds)));
	snprintf(down, sizeof down, "%.1f s", m->below + m->still);
	rc = buf_fmt(out, "%-14s %-10s learners trained %.1f of %.1f s\n", "goodput", goodput, trained_time(r),
		     allotted_time(r));
	if (rc == 0)
		rc = buf_fmt(out, "%-14s %-10s of %.1f s with at least %u learners able to contribute\n", "uptime",
			     uptime, m->seconds, m->quorum);
	return rc < 0 ? rc : buf_fmt(out, "%-14s %-10s fewer than that %.1f s; the global step stood still although "
		"not %.1f s\n", "downtime", down, m->below, m->still);
}

static int text_run(struct buf *out, const struct inject_report *r)
{
	const struct meter *m = &r->result->meter;
	char stall[24], merged[24] = "not known";
	int rc = text_times(out, r);

	snprintf(stall, sizeof stall, "%.1f s", m->stall);
	if (r->trained > 0)
		snprintf(merged, sizeof merged, "%.1f %%", 100 * ratio(r->merged, r->trained));
	if (rc == 0)
		rc = buf_fmt(out, "%-14s %-10s without a new global step, from %.1f s on\n", "longest stall", stall,
			     m->stall_at);
	return rc < 0 ? rc : buf_fmt(out, "%-14s %-10s of %.0f trained; %.0f refused, %.0f open, %.0f lost, "
		"%.0f under way; answers: %" PRIu64 " accepted, %" PRIu64 " late, %" PRIu64 " refused\n",
		"merged tokens", merged, r->trained, r->refused, r->open, r->lost, r->under_way, r->accepted, r->late,
		r->refusals);
}

static int text_process(struct buf *out, const struct inject_report *r, size_t i)
{
	const struct inject_process_result *p = &r->result->process[i];
	const struct meter_learner *l = meter_of(r, i);
	char up[24];
	int rc;

	snprintf(up, sizeof up, "%.1f %%", 100 * ratio(p->ran, r->result->seconds));
	rc = buf_fmt(out, "%-14s %-10s up; killed %u, died %u times", r->conf->list->v[i].name, up, p->kills,
		     p->deaths);
	if (rc == 0 && l && l->startings)
		rc = buf_fmt(out, ", began to train after %.2f s, %.3f s a step", l->starting / l->startings,
			     l->step_seconds);
	if (rc == 0 && *p->how)
		rc = buf_fmt(out, "; at last: %s", p->how);
	return rc < 0 ? rc : buf_str(out, "\n");
}

static int text(struct buf *out, const struct inject_report *r)
{
	int rc = text_checks(out, r);

	if (rc == 0)
		rc = text_faults(out, r);
	if (rc == 0 && r->conf->manifest)
		rc = text_run(out, r);
	for (size_t i = 0; rc == 0 && i < r->conf->list->n; i++)
		rc = text_process(out, r, i);
	return rc;
}

/* ---- for programs ---- */

static int key(struct buf *out, const char *before, const char *name)
{
	int rc = buf_str(out, before);

	if (rc == 0)
		rc = json_text(out, name);
	return rc < 0 ? rc : buf_str(out, ":");
}

static int number(struct buf *out, const char *name, double x)
{
	int rc = key(out, ",", name);

	return rc < 0 ? rc : json_f64(out, x);
}

static int json_checks(struct buf *out, const struct inject_report *r)
{
	int rc = 0;

	for (int i = 0; rc == 0 && i < INJECT_CHECKS; i++) {
		rc = key(out, i ? "," : "", names[i]);
		if (rc == 0)
			rc = buf_fmt(out, "{\"holds\":%s,\"why\":", r->check[i].verdict == INJECT_UNASKED ? "null" :
				     r->check[i].verdict == INJECT_HOLDS ? "true" : "false");
		if (rc == 0)
			rc = json_text(out, r->check[i].why);
		if (rc == 0)
			rc = buf_str(out, "}");
	}
	return rc;
}

static int json_faults(struct buf *out, const struct inject_report *r)
{
	int rc = key(out, ",", "faults");

	if (rc == 0)
		rc = buf_fmt(out, "{\"absorbed\":%" PRIu64, r->result->absorbed);
	for (int k = 0; rc == 0 && k < FAULT_KINDS; k++)
		rc = number(out, fault_kind_name((enum fault_kind)k), (double)r->result->hit[k]);
	return rc < 0 ? rc : buf_str(out, "}");
}

struct pair {
	const char *name;
	double value;
};
static int numbers(struct buf *out, const struct pair *p, size_t n)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = number(out, p[i].name, p[i].value);
	return rc;
}

static int json_run(struct buf *out, const struct inject_report *r)
{
	const struct meter *m = &r->result->meter;
	const double timed = is_timed(r) ? 0 : NAN; /* added to what is not known otherwise, which is null then */
	const struct pair p[] = {
		{ "goodput", timed + ratio(trained_time(r), allotted_time(r)) },
		{ "uptime", timed + 1 - ratio(m->below, m->seconds) },
		{ "run_seconds", m->seconds }, { "learners", (double)m->learners }, { "quorum", m->quorum },
		{ "trained_seconds", timed + trained_time(r) }, { "below_quorum", timed + m->below },
		{ "stood_still", timed + m->still },
		{ "longest_stall", m->stall }, { "stall_at", m->stall_at }, { "step", (double)m->step },
		{ "tokens_trained", r->trained }, { "tokens_merged", r->merged }, { "tokens_refused", r->refused },
		{ "tokens_open", r->open }, { "tokens_lost", r->lost },
		{ "tokens_under_way", r->under_way }, { "answers_accepted", (double)r->accepted },
		{ "answers_late", (double)r->late }, { "answers_refused", (double)r->refusals },
	};

	return numbers(out, p, sizeof p / sizeof *p);
}

static int json_process(struct buf *out, const struct inject_report *r, size_t i)
{
	const struct inject_process_result *p = &r->result->process[i];
	const struct meter_learner *l = meter_of(r, i);
	const struct pair every[] = { { "up", ratio(p->ran, r->result->seconds) }, { "starts", p->starts },
				      { "kills", p->kills }, { "deaths", p->deaths } };
	const struct pair learner[] = { { "trained_seconds", l ? l->trained : 0 },
					{ "start_seconds", l && l->startings ? l->starting / l->startings : 0 },
					{ "step_seconds", l ? l->step_seconds : 0 } };
	int rc = key(out, i ? ",{" : "{", "name");

	if (rc == 0)
		rc = json_text(out, r->conf->list->v[i].name);
	if (rc == 0)
		rc = numbers(out, every, sizeof every / sizeof *every);
	if (rc == 0 && l)
		rc = numbers(out, learner, sizeof learner / sizeof *learner);
	if (rc == 0)
		rc = key(out, ",", "end");
	if (rc == 0)
		rc = json_text(out, p->how);
	return rc < 0 ? rc : buf_str(out, "}");
}

static int json(struct buf *out, const struct inject_report *r)
{
	int rc = key(out, "{", "invariants");

	if (rc == 0)
		rc = buf_str(out, "{");
	if (rc == 0)
		rc = json_checks(out, r);
	if (rc == 0)
		rc = buf_str(out, "}");
	if (rc == 0)
		rc = json_faults(out, r);
	if (rc == 0)
		rc = number(out, "seconds", r->result->seconds);
	if (rc == 0 && r->conf->manifest)
		rc = json_run(out, r);
	if (rc == 0)
		rc = key(out, ",", "processes");
	if (rc == 0)
		rc = buf_str(out, "[");
	for (size_t i = 0; rc == 0 && i < r->conf->list->n; i++)
		rc = json_process(out, r, i);
	return rc < 0 ? rc : buf_str(out, "]}\n");
}

int inject_report_format(const struct inject_report *r, bool as_json, struct buf *out)
{
	return (as_json ? json : text)(out, r);
}
