/* Who did what when: bars and marks of a trace and of a tape. */
#include "chaos/gantt.h"

#include "io/fd.h"
#include "run_dir.h"

static int of_trace(struct gantt *g, const char *learners, const char *events, int n)
{
	struct trace_reader *r;
	char text[4096];
	int fd, rc;

	snprintf(text, sizeof text, "0 trace format=1 mode=decoupled learners=%s fragments=1 interval=4 overlap=2 quorum=1"
		" grace=1 adopt=rebase step_tokens=64 seed=1 params=1 chips=0\n%s100 end events=%d\n", learners, events, n);
	CHECK(fd_temporary(&fd) == 0 && fd_write(fd, text, strlen(text)) == 0 && lseek(fd, 0, SEEK_SET) == 0);
	CHECK(trace_open(&r, fd) == 0);
	rc = gantt_trace(g, r);
	trace_close(r);
	close(fd);
	return rc;
}

static bool bar_is(const struct gantt *g, enum gantt_bar_kind k, size_t i, unsigned lane, double from, double to)
{
	return i < g->bars[k].n && g->bars[k].v[i].lane == lane && g->bars[k].v[i].from == from && g->bars[k].v[i].to == to;
}

#define EVENTS "0 join learner=0\n2 stop learner=0 seconds=3 why=down\n10 lost learner=0 state=lost\n20 back learner=0\n" \
	"30 gone learner=0\n40 join learner=1\n50 step learner=1\n"

static void a_trace(void)
{
	struct gantt g = { .from = -HUGE_VAL, .until = HUGE_VAL };

	CHECK(of_trace(&g, "2", EVENTS, 7) == 0);
	CHECK(g.lanes == 3 && g.bars[GANTT_TRAINS].n == 3 && g.bars[GANTT_DEAD].n == 1);
	CHECK(bar_is(&g, GANTT_TRAINS, 0, 1, 0, 10) && bar_is(&g, GANTT_DEAD, 0, 1, 10, 20));
	CHECK(bar_is(&g, GANTT_TRAINS, 1, 1, 20, 30) && bar_is(&g, GANTT_TRAINS, 2, 2, 40, 50));
	CHECK(bar_is(&g, GANTT_STOPS, 0, 1, 2, 5));
	gantt_release(&g);
	g.from = 5;
	g.until = 25;
	CHECK(of_trace(&g, "2", EVENTS, 7) == 0);
	CHECK(bar_is(&g, GANTT_TRAINS, 0, 1, 5, 10) && bar_is(&g, GANTT_TRAINS, 1, 1, 20, 25));
	CHECK(g.bars[GANTT_TRAINS].n == 2 && g.bars[GANTT_STOPS].n == 0);
	gantt_release(&g);
	CHECK(of_trace(&g, "300", EVENTS, 7) == ERR_DATA);
	CHECK_SAYS("more than 256 learners");
	gantt_release(&g);
}

static void nothing_in_it(void)
{
	const struct gnuplot_page page = { GNUPLOT_SVG, 300, 200, NULL };
	struct gantt g = { .from = 1000, .until = 2000 };
	struct buf out = BUF_INIT;

	CHECK(of_trace(&g, "2", EVENTS, 7) == 0);
	CHECK(gantt_script(&out, &g, &page) == ERR_DATA);
	CHECK_SAYS("nothing happened in it");
	gantt_release(&g);
	buf_release(&out);
}

static void a_tape(void)
{
	struct gantt g = { .from = -HUGE_VAL, .until = HUGE_VAL };
	struct tape_reader *r;
	struct run_dir d;

	run_dir_begin(&d);
	run_dir_tape(&d, (const char *const[]){ "ann", "bob", NULL });
	LINE(&d, 5, "answer", "round", "1", "learner", "bob");
	LINE(&d, 6, "publish", "round", "1");
	LINE(&d, 7, "refuse", "round", "1", "learner", "ann", "verdict", "late");
	LINE(&d, 7.5, "refuse", "round", "1", "learner", "ann", "verdict", "outlier");
	LINE(&d, 8, "lost", "learner", "ann", "silent", "30");
	LINE(&d, 9, "back", "learner", "ann");
	LINE(&d, 12, "end");
	CHECK(tape_read_open(&r, d.manifest.meta.run, 1) == 0);
	CHECK(gantt_tape(&g, r) == 0);
	tape_read_close(r);
	CHECK(g.lanes == 3);
	CHECK_STR(g.lane[1].name, "ann");
	CHECK(bar_is(&g, GANTT_TRAINS, 0, 1, 1, 8) && bar_is(&g, GANTT_DEAD, 0, 1, 8, 9));
	CHECK(bar_is(&g, GANTT_TRAINS, 1, 1, 9, 12) && bar_is(&g, GANTT_TRAINS, 2, 2, 1, 12));
	CHECK(bar_is(&g, GANTT_SYNCS, 0, 0, 0, 12));
	CHECK(g.marks[GANTT_ANSWER].n == 1 && g.marks[GANTT_ANSWER].v[0].lane == 2 && g.marks[GANTT_ANSWER].v[0].at == 5);
	CHECK(g.marks[GANTT_LATE].n == 1 && g.marks[GANTT_LATE].v[0].at == 7 && g.marks[GANTT_MERGE].n == 1);
	gantt_release(&g);
	run_dir_end(&d);
}

/* The next epoch: the file goes on behind the lines of the one before. */
static void next_epoch(struct run_dir *d, uint64_t epoch, const char *wall)
{
	uint64_t lines = tape_lines(d->tape);
	char after[24], number[24], hash[65] = "";
	digest last;

	tape_last(d->tape, &last);
	for (size_t i = 0; i < sizeof last.b; i++)
		snprintf(hash + 2 * i, 3, "%02x", last.b[i]);
	tape_close(d->tape);
	CHECK(tape_open(&d->tape, d->manifest.meta.run, epoch, lines, &last) == 0);
	snprintf(after, sizeof after, "%u", (unsigned)lines);
	snprintf(number, sizeof number, "%u", (unsigned)epoch);
	LINE(d, 0, "epoch", "epoch", number, "after", after, "hash", hash, "at", wall);
}

/* ann goes on through the pause, bob is killed in it and comes back, cid leaves in it, dan is never heard of again,
 * eve too, though an answer of hers from before lies there. */
static void a_pause_of_the_syncer(void)
{
	struct gantt g = { .from = -HUGE_VAL, .until = HUGE_VAL };
	struct tape_reader *r;
	struct run_dir d;

	run_dir_begin(&d);
	run_dir_tape(&d, (const char *const[]){ "ann", "bob", "cid", "dan", "eve", NULL });
	LINE(&d, 2, "call", "round", "1");
	LINE(&d, 3, "answer", "round", "1", "learner", "ann", "incarnation", "1");
	LINE(&d, 10, "call", "round", "2");
	next_epoch(&d, 2, "100");
	LINE(&d, 1, "gone", "learner", "cid");
	LINE(&d, 2, "answer", "round", "2", "learner", "eve", "incarnation", "1");
	LINE(&d, 3, "back", "learner", "bob", "incarnation", "2");
	LINE(&d, 5, "call", "round", "3");
	LINE(&d, 6, "answer", "round", "3", "learner", "ann", "incarnation", "1");
	LINE(&d, 9, "end");
	CHECK(tape_read_open(&r, d.manifest.meta.run, 2) == 0);
	CHECK(gantt_tape(&g, r) == 0);
	tape_read_close(r);
	CHECK(g.bars[GANTT_SYNCS].n == 2 && bar_is(&g, GANTT_SYNCS, 1, 0, 100, 109));
	CHECK(g.bars[GANTT_TRAINS].n == 6 && g.bars[GANTT_DEAD].n == 0);
	CHECK(bar_is(&g, GANTT_TRAINS, 0, 3, 1, 10)); /* cid */
	CHECK(bar_is(&g, GANTT_TRAINS, 1, 2, 1, 10)); /* bob */
	CHECK(bar_is(&g, GANTT_TRAINS, 2, 4, 1, 10) && bar_is(&g, GANTT_TRAINS, 3, 5, 1, 10));
	CHECK(bar_is(&g, GANTT_TRAINS, 4, 1, 1, 109)); /* ann */
	CHECK(bar_is(&g, GANTT_TRAINS, 5, 2, 103, 109));
	gantt_release(&g);
	run_dir_end(&d);
}

/* dl-sync --once, each minute: epochs of an instant. Whoever answers is there all the time. */
static void passes_of_a_syncer(void)
{
	struct gantt g = { .from = -HUGE_VAL, .until = HUGE_VAL };
	char wall[24], round[24];
	struct tape_reader *r;
	struct run_dir d;

	run_dir_begin(&d);
	run_dir_tape(&d, (const char *const[]){ "ann", "bob", NULL });
	LINE(&d, 1, "call", "round", "1");
	for (unsigned i = 2; i <= 4; i++) {
		snprintf(wall, sizeof wall, "%u", 60 * (i - 1));
		snprintf(round, sizeof round, "%u", i - 1);
		next_epoch(&d, i, wall);
		LINE(&d, 0, "answer", "round", round, "learner", "ann", "incarnation", "1");
		snprintf(round, sizeof round, "%u", i);
		LINE(&d, 0, "call", "round", round);
	}
	CHECK(tape_read_open(&r, d.manifest.meta.run, 4) == 0);
	CHECK(gantt_tape(&g, r) == 0);
	tape_read_close(r);
	CHECK(g.bars[GANTT_TRAINS].n == 1);
	CHECK(bar_is(&g, GANTT_TRAINS, 0, 1, 1, 120)); /* to its last call that was answered */
	gantt_release(&g);
	run_dir_end(&d);
}

int main(void)
{
	a_trace();
	nothing_in_it();
	a_tape();
	a_pause_of_the_syncer();
	passes_of_a_syncer();
	return unit_done("gantt");
}
