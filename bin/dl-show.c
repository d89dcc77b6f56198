/*
 * dl-show - what is in a sealed file or a run directory, whether it is intact, and where two files differ
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/opt.h"
#include "base/say.h"
#include "form/content.h"
#include "form/report.h"
#include "io/dir.h"
#include "io/fd.h"
#include "round/explain.h"
#include "round/run_report.h"
#include "round/rundir.h"

#define THREADS 8 /* most that are taken without being asked for: they cost 6 MiB each */
#define LOOK 3    /* seconds that a run is watched to see who lives: beats come every second */

static struct {
	const char *key, *trust;
	uint64_t threads;
	bool verify, diff, tape, ledger, why, json, quiet, verbose;
} o;

static const struct opt table[] = {
	{ 0, "verify", OPT_FLAG, &o.verify, NULL, "check everything, print nothing" },
	{ 0, "diff", OPT_FLAG, &o.diff, NULL,
	  "compare two files: status 0 when all values are equal, else 1" },
	{ 0, "tape", OPT_FLAG, &o.tape, NULL, "verify and print the tape of a run directory" },
	{ 0, "ledger", OPT_FLAG, &o.ledger, NULL,
	  "what became of the tokens of each learner: status 1 when the books do not balance" },
	{ 0, "why", OPT_FLAG, &o.why, NULL, "why the open rounds of a run are open, and what to type" },
	{ 0, "json", OPT_FLAG, &o.json, NULL, "print one JSON object a line, for each file or item" },
	{ 'k', "key", OPT_TEXT, &o.key, "FILE", "own secret key" },
	{ 'T', "trust", OPT_TEXT, &o.trust, "PATH", "trusted keys, instead of $DL_TRUST or the default" },
	{ 'j', "threads", OPT_U64, &o.threads, "N",
	  "threads, by default one a processor, at most 8", .min = 1, .max = 1024 },
	{ 'q', "quiet", OPT_FLAG, &o.quiet, NULL,
	  "print nothing: verify, or with --diff only compare" },
	{ 'v', "verbose", OPT_FLAG, &o.verbose, NULL, "say what was verified" },
	OPT_END
};
static const char *const synopsis[] = {
	"dl-show [--json] [FILE | RUN...]",
	"dl-show --verify [FILE | RUN...]",
	"dl-show --diff [--json] A B",
	"dl-show --tape | --ledger [--json] RUN",
	"dl-show --why RUN",
	NULL
};
static const struct opt_prog prog = {
	"dl-show", "Shows, verifies and compares sealed files, and shows run directories.",
	synopsis, table
};
static struct say say;

/* A file that is being read. */
struct input {
	int fd;
	struct frame_reader *reader;
	const char *signer; /* NULL: nobody who is trusted */
	bool revoked;
};

/* What all files have in common. */
struct context {
	struct trust trust;
	struct pool *pool;
	struct report report;
	int status; /* the gravest so far */
};

static void note(struct context *c, int code)
{
	int status = say_error(&say, code);

	if (status > c->status)
		c->status = status;
}

static void input_close(struct input *in)
{
	frame_reader_free(in->reader);
	if (in->fd >= 0)
		close(in->fd);
}

/* A stranger's file is shown as well, once its seal is verified, but said to be one. */
static int input_open(struct input *in, struct context *c, const char *path)
{
	int rc;

	*in = (struct input){ .fd = -1 };
	rc = fd_open_in(path, &in->fd);
	if (rc == 0)
		rc = frame_open(&in->reader, in->fd, fd_name(path), NULL, c->pool);
	if (rc < 0)
		return rc;
	rc = trust_judge(&c->trust, frame_signer(in->reader), &in->signer);
	if (rc == ERR_AUTH) {
		note(c, err_at(rc, "%s", fd_name(path)));
		in->signer = NULL;
		in->revoked = trust_revoked(&c->trust, frame_signer(in->reader));
		rc = 0;
	}
	return rc;
}

static int print(struct report *r)
{
	size_t n = r->out.len;

	if (n && !o.quiet && fwrite(r->out.data, 1, n, stdout) != n)
		return err_sys("standard output");
	buf_clear(&r->out);
	return 0;
}

/* For a note: who made a file and what it is. */
static void tell(const struct input *in, const digest *id)
{
	char hex[2 * SIG_DIGEST + 1], print[TRUST_PRINT];

	sig_hex(hex, id->b, sizeof id->b);
	sig_fingerprint(print, frame_signer(in->reader));
	say_note(&say, "%s: intact, %s, signed by %s (%s), %" PRIu64 " bytes",
		frame_name(in->reader), hex, print,
		in->signer ? in->signer : in->revoked ? "revoked" : "not trusted",
		frame_bytes(in->reader));
}

static int verify(const struct input *in)
{
	struct frame_reader *r = in->reader;
	struct frame_slice s;
	digest id;
	int rc;

	while ((rc = frame_next(r, &s)) > 0)
		if (say_due(&say))
			say_progress(&say, "%s: %" PRIu64 " MB", frame_name(r),
				frame_bytes(r) / 1000000);
	say_progress_end(&say);
	if (rc == 0)
		rc = frame_id(r, &id);
	if (rc == 0)
		tell(in, &id);
	return rc;
}

/* Text appears as it becomes known, JSON when it is complete. */
static int show(struct context *c, const struct input *in)
{
	struct frame_reader *r = in->reader;
	const struct tensors *ts = &frame_header(r)->tensors;
	struct tally tally = { 0 };
	struct content content;
	struct frame_slice s;
	digest sum;
	int rc = o.json ? 0 : print(&c->report);

	content_init(&content, ts);
	while (rc == 0 && (rc = frame_next(r, &s)) > 0) {
		const struct tensor *t = &ts->v[s.tensor];

		tally_add(&tally, t, &s);
		content_add(&content, &s);
		rc = 0;
		if (tally.n == t->count) {
			rc = report_tensor(&c->report, t, &tally);
			tally = (struct tally){ 0 };
		}
		if (rc == 0 && !o.json)
			rc = print(&c->report);
	}
	content_end(&content, &sum);
	if (rc == 0)
		rc = report_end(&c->report, r, &sum);
	return rc == 0 ? print(&c->report) : rc;
}

static void one_file(struct context *c, const char *path)
{
	struct input in;
	int rc = input_open(&in, c, path);

	if (rc == 0 && !o.verify)
		rc = report_head(&c->report, in.reader, in.signer, in.revoked);
	if (rc == 0)
		rc = o.verify ? verify(&in) : show(c, &in);
	if (rc < 0)
		note(c, rc);
	input_close(&in);
}

/* ---- run directories ---- */

/* A run that has been entered. */
struct run {
	const char *name;
	struct manifest manifest;
	struct fragments fragments;
	struct audit audit;
};

static int show_tape(struct context *c, struct run *r)
{
	struct tape_reader *t;
	const struct tape_line *l;
	int rc = audit_tape(&r->audit, &t);

	while (rc == 0 && (rc = tape_read(t, &l)) > 0) {
		rc = o.verify ? 0 : run_report_line(&c->report.out, l, o.json);
		if (rc == 0)
			rc = print(&c->report);
	}
	if (rc == 0 && !r->audit.headed && tape_read_number(t))
		say_warn(&say, "%s: there is no head: nobody has sealed this tape", r->name);
	if (rc == 0 && tape_read_torn(t))
		say_note(&say, "%s: the last line of the tape is cut short, or is being written", r->name);
	if (rc == 0)
		say_note(&say, "%s: tape intact, %" PRIu64 " lines", r->name, tape_read_number(t));
	tape_read_close(t);
	return rc;
}

/* One line for each learner whose books do not balance. */
static int say_unbalanced(const struct run *r, const struct books *b)
{
	struct books_learner l;
	int rc = 0;

	for (size_t i = 0; i < books_learners(b) && rc == 0; i++)
		if ((rc = books_learner(b, i, &l)) == 0 && !l.balanced)
			say_warn(&say, "%s: books of '%s' do not balance: %s", r->name, l.name, l.why);
	return rc;
}

static int show_ledger(struct context *c, struct run *r)
{
	struct books *b;
	bool balanced = true;
	int rc = audit_books(&r->audit, &r->fragments, &b, &say);

	if (rc < 0)
		return rc;
	rc = run_report_books(&c->report.out, b, o.json, &balanced);
	if (rc == 0)
		rc = print(&c->report);
	if (rc == 0 && !balanced) {
		rc = say_unbalanced(r, b);
		c->status = c->status ? c->status : 1;
	}
	books_close(b);
	return rc;
}

static int show_why(struct context *c, const char *name)
{
	struct view *v;
	int rc = view_open(&v, &c->trust, clock_monotonic());

	if (rc < 0)
		return rc;
	rc = view_look(v, LOOK);
	if (rc == 0)
		rc = explain_run(&c->report.out, v, name);
	if (rc == 0)
		rc = print(&c->report);
	if (rc == 0) /* as in dl-top: no run that has not begun */
		rc = err_restore(&v->head_trouble);
	view_close(v);
	return rc;
}

static int show_run(struct context *c, struct run *r)
{
	int rc;

	if (o.tape || o.verify)
		return show_tape(c, r);
	if (o.ledger)
		return show_ledger(c, r);
	rc = run_report_run(&c->report.out, r->name, &r->audit, &r->fragments, o.json, &say);
	return rc == 0 ? print(&c->report) : rc;
}

static int read_run(struct context *c, const char *name)
{
	struct run r = { .name = name };
	int rc = manifest_load(&r.manifest, &c->trust);

	if (rc == 0)
		rc = fragments_cut(&r.fragments, &r.manifest.layout, r.manifest.fragments);
	if (rc == 0 && (rc = audit_open(&r.audit, &r.manifest, &c->trust)) == 0)
		rc = show_run(c, &r);
	audit_close(&r.audit);
	fragments_release(&r.fragments);
	manifest_release(&r.manifest);
	return rc;
}

/* Its files are read by relative paths: the run may be renamed meanwhile. */
static void one_run(struct context *c, const char *name)
{
	int home = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc;

	if (home < 0) {
		note(c, err_sys("the current directory"));
		return;
	}
	rc = rundir_enter(name);
	if (rc == 0 && (rc = o.why ? show_why(c, name) : read_run(c, name)) < 0 && !ferror(stdout))
		err_at(rc, "%s", name);
	if (rc < 0)
		note(c, rc);
	if (fchdir(home) < 0)
		note(c, err_sys("the directory where it began"));
	close(home);
}

static bool of_run(void)
{
	return o.tape || o.ledger || o.why;
}

static void one_word(struct context *c, const char *path, bool first)
{
	buf_clear(&c->report.out);
	if (!o.verify && !first && !o.json && buf_str(&c->report.out, "\n") < 0)
		note(c, ERR_NOMEM);
	if (of_run() || (strcmp(path, "-") != 0 && dir_is(path)))
		one_run(c, path);
	else
		one_file(c, path);
}

/* A file and how far its present slice is used up. */
struct side {
	struct frame_reader *reader;
	struct frame_slice slice;
	uint32_t used;
};

static int side_fill(struct side *s)
{
	int rc;

	if (s->used < s->slice.n)
		return 0;
	s->used = 0;
	rc = frame_next(s->reader, &s->slice);
	return rc < 0 ? rc : 0;
}

/* Slices of the two need not be equally long. */
static int diff_tensor(struct contrast *c, const struct tensor *t, struct side *a, struct side *b)
{
	*c = (struct contrast){ 0 };
	while (c->n < t->count) {
		uint32_t left_a, left_b, n;
		int rc = side_fill(a);

		if (rc == 0)
			rc = side_fill(b);
		if (rc < 0)
			return rc;
		left_a = a->slice.n - a->used;
		left_b = b->slice.n - b->used;
		n = left_a < left_b ? left_a : left_b;
		contrast_add(c, t, &a->slice, a->used, &b->slice, b->used, n);
		a->used += n;
		b->used += n;
	}
	return 0;
}

static int diff_values(struct context *c, struct side *a, struct side *b)
{
	const struct tensors *ts = &frame_header(a->reader)->tensors;
	struct contrast contrast, all = { 0 };
	size_t differ = 0;
	int rc = 0;

	for (size_t t = 0; t < ts->n && rc == 0; t++) {
		rc = diff_tensor(&contrast, &ts->v[t], a, b);
		if (rc == 0)
			rc = report_diff_tensor(&c->report, &ts->v[t], &contrast);
		if (rc == 0 && !o.json)
			rc = print(&c->report);
		differ += contrast.differ > 0;
		contrast_join(&all, &contrast);
	}
	/* Equal is what is equal up to the verified end. */
	if (rc == 0)
		rc = frame_next(a->reader, &a->slice);
	if (rc == 0)
		rc = frame_next(b->reader, &b->slice);
	if (rc == 0)
		rc = report_diff_end(&c->report, differ, ts->n, &all);
	if (rc == 0 && differ && c->status == 0)
		c->status = 1;
	return rc == 0 ? print(&c->report) : rc;
}

static int same_layout(const struct frame_reader *a, const struct frame_reader *b)
{
	int rc = tensors_same(&frame_header(a)->tensors, &frame_header(b)->tensors);

	return rc < 0 ? err_at(rc, "%s: not the layout of '%s'", frame_name(b), frame_name(a)) : 0;
}

static int diff(struct context *c, char **words)
{
	struct input a = { .fd = -1 }, b = { .fd = -1 };
	struct side left = { .used = 0 }, right = left;
	int rc = input_open(&a, c, words[0]);

	if (rc == 0)
		rc = input_open(&b, c, words[1]);
	if (rc == 0)
		rc = report_diff_head(&c->report, a.reader, b.reader);
	if (rc == 0 && !o.json)
		rc = print(&c->report);
	if (rc == 0)
		rc = same_layout(a.reader, b.reader);
	if (rc == 0) {
		left.reader = a.reader;
		right.reader = b.reader;
		rc = diff_values(c, &left, &right);
	}
	input_close(&a);
	input_close(&b);
	return rc;
}

static int check_words(char ***words, int *n)
{
	static char standard_input[] = "-", *all[] = { standard_input, NULL };
	int standard = 0;

	if (o.diff && *n != 2)
		return err_set(ERR_USAGE, "--diff compares two files, not %d", *n);
	if (o.diff + o.tape + o.ledger + o.why > 1)
		return err_set(ERR_USAGE, "only one of --diff, --tape, --ledger and --why can be");
	if (of_run() && *n != 1)
		return err_set(ERR_USAGE, "--%s is of one run directory, not %d",
			o.tape ? "tape" : o.ledger ? "ledger" : "why", *n);
	if (o.why && o.json)
		return err_set(ERR_USAGE, "--why is for people: no --json");
	if (o.verify && (o.diff || o.json))
		return err_set(ERR_USAGE, "--verify prints nothing, so not with %s",
			o.diff ? "--diff" : "--json");
	for (int i = 0; i < *n; i++)
		standard += strcmp((*words)[i], "-") == 0;
	if (standard > 1)
		return err_set(ERR_USAGE, "standard input can be read only once");
	if (*n == 0) {
		if (isatty(STDIN_FILENO) == 1)
			return err_set(ERR_USAGE, "no file given; see -h");
		*words = all;
		*n = 1;
	}
	return 0;
}

static int prepare(struct context *c)
{
	int cpus = pool_cpus(), threads = cpus < THREADS ? cpus : THREADS;
	int rc = trust_reader(&c->trust, o.key, o.trust);

	if (o.threads)
		threads = (int)o.threads;
	return rc == 0 ? pool_open(&c->pool, threads) : rc;
}

int main(int argc, char **argv)
{
	struct context c = { .pool = NULL };
	char **words;
	int n, rc = fd_standard();

	if (rc == 0)
		rc = opt_parse(&prog, argc, argv, &words, &n);
	o.verify = o.verify || (o.quiet && !o.diff && !of_run());
	say_init(&say, prog.name, o.quiet, o.verbose);
	c.report.json = o.json;
	if (rc == 0 && (rc = check_words(&words, &n)) == 0 && (rc = prepare(&c)) == 0) {
		if (o.diff)
			rc = diff(&c, words);
		for (int i = 0; i < n && !o.diff && !ferror(stdout); i++)
			one_word(&c, words[i], i == 0);
	}
	if (rc == 0 && !ferror(stdout)) /* else print() has told it */
		rc = fd_close_output();
	if (rc < 0)
		note(&c, rc);
	report_release(&c.report);
	trust_release(&c.trust);
	pool_close(c.pool);
	return c.status;
}
