/* mirror, carry - a learner's copy of a run directory, kept well and badly. Files are bytes to them. */
#include "chaos/mirror.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/dir.h"
#include "unit.h"

static char top[] = "/tmp/mirror-XXXXXX";

/* Writes run/PATH or copy/PATH as the tools do: under another name, then renamed. */
static void put(const char *path, const char *text)
{
	FILE *f = fopen("new", "w");

	CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
	CHECK(rename("new", path) == 0);
}

/* What is there, "-" for nothing. */
static const char *at(const char *path)
{
	static char text[4][128];
	static int turn;
	char *out = text[turn++ % 4];
	FILE *f = fopen(path, "r");
	size_t n = f ? fread(out, 1, sizeof text[0] - 1, f) : 0;

	out[n] = '\0';
	if (f)
		fclose(f);
	return f ? out : "-";
}

static struct mirror *begin(void)
{
	const struct mirror_conf c = { .run = "run", .copy = "copy", .spool = "spool", .learner = "a" };
	struct mirror *m;

	CHECK(system("rm -rf run copy spool") == 0);
	CHECK(dir_make("run/global/f000", 0777) == 0 && dir_make("run/learner/b", 0777) == 0);
	put("run/manifest", "manifest");
	put("run/global/f000/0.frag", "version 0");
	CHECK(mirror_open(&m, &c) == 0);
	return m;
}

static void end(struct mirror *m)
{
	struct stat st;

	mirror_close(m);
	CHECK(stat("copy", &st) < 0 && stat("spool", &st) < 0);
}

static void files_go_both_ways(void)
{
	struct mirror *m = begin();

	CHECK_STR(at("copy/manifest"), "manifest");
	CHECK_STR(at("copy/global/f000/0.frag"), "version 0");
	put("run/head", "head 1");
	put("run/learner/b/state", "state of b");
	put("run/learner/b/beat", "beat of b");
	put("copy/learner/a/beat", "beat 1");
	put("copy/learner/a/f000.1.delta", "answer 1");
	put("copy/learner/a/.f000.2.delta.tmp", "half");
	put("copy/learner/a/state.lock", "");
	CHECK(mirror_tend(m, 1) == 0);
	CHECK_STR(at("copy/head"), "head 1");
	CHECK_STR(at("copy/learner/b/state"), "state of b");
	CHECK_STR(at("copy/learner/b/beat"), "-"); /* nobody asks for it */
	CHECK_STR(at("run/learner/a/beat"), "beat 1");
	CHECK_STR(at("run/learner/a/f000.1.delta"), "answer 1");
	CHECK_STR(at("run/learner/a/.f000.2.delta.tmp"), "-");
	CHECK_STR(at("run/learner/a/state.lock"), "-");
	put("run/head", "head 2");
	put("copy/learner/a/beat", "beat 2");
	unlink("copy/learner/a/f000.1.delta");
	unlink("run/global/f000/0.frag");
	CHECK(mirror_tend(m, 2) == 0);
	CHECK_STR(at("copy/head"), "head 2");
	CHECK_STR(at("run/learner/a/beat"), "beat 2");
	CHECK_STR(at("run/learner/a/f000.1.delta"), "-");
	CHECK_STR(at("copy/global/f000/0.frag"), "-");
	end(m);
}

static void what_a_learner_had_before_is_its_own_again(void)
{
	const struct mirror_conf c = { .run = "run", .copy = "copy", .spool = "spool", .learner = "a" };
	struct mirror *m = begin();

	put("copy/learner/a/state", "state");
	put("copy/learner/a/f003.7.delta", "answer");
	CHECK(mirror_tend(m, 1) == 0);
	end(m);
	CHECK(mirror_open(&m, &c) == 0);
	CHECK_STR(at("copy/learner/a/state"), "state");
	CHECK_STR(at("copy/learner/a/f003.7.delta"), "answer");
	CHECK_STR(at("run/learner/a/state"), "state");
	end(m);
}

static void strike(struct mirror *m, enum fault_kind k, enum fault_class file, double when, double lasts, double value)
{
	const struct fault f = { .kind = k, .at = when, .lasts = lasts, .value = value, .file = file };

	CHECK(mirror_break(m, &f) == 0);
}

static void nothing_passes_a_cut(void)
{
	struct mirror *m = begin();

	strike(m, FAULT_CUT, 0, 1, 2, 0);
	put("run/head", "head 1");
	put("copy/learner/a/beat", "beat 1");
	CHECK(mirror_tend(m, 2) == 0 && mirror_is_cut(m, 2));
	CHECK_STR(at("copy/head"), "-");
	CHECK_STR(at("run/learner/a/beat"), "-");
	CHECK(mirror_tend(m, 3.1) == 0 && !mirror_is_cut(m, 3.1));
	CHECK_STR(at("copy/head"), "head 1");
	CHECK_STR(at("run/learner/a/beat"), "beat 1");
	end(m);
}

static void what_is_delayed_comes_in_order(void)
{
	struct mirror *m = begin();

	strike(m, FAULT_DELAY, 0, 1, 2, 1);
	put("run/head", "head 1");
	CHECK(mirror_tend(m, 1.5) == 0);
	put("run/head", "head 2");
	CHECK(mirror_tend(m, 2) == 0);
	CHECK_STR(at("copy/head"), "-");
	CHECK(mirror_tend(m, 2.6) == 0);
	CHECK_STR(at("copy/head"), "head 1");
	put("run/head", "head 3");
	CHECK(mirror_tend(m, 2.9) == 0);
	CHECK(mirror_tend(m, 3.05) == 0);
	CHECK_STR(at("copy/head"), "head 2");
	put("run/head", "head 4"); /* it is over, and the old one on its way does not come any more */
	CHECK(mirror_tend(m, 3.1) == 0);
	CHECK_STR(at("copy/head"), "head 4");
	CHECK(mirror_tend(m, 4) == 0);
	CHECK_STR(at("copy/head"), "head 4");
	end(m);
}

static void the_old_replaces_the_new_when_reordered(void)
{
	struct mirror *m = begin();

	strike(m, FAULT_REORDER, 0, 1, 2, 0);
	put("run/head", "head 1");
	CHECK(mirror_tend(m, 1.5) == 0);
	put("run/head", "head 2");
	CHECK(mirror_tend(m, 2) == 0);
	CHECK_STR(at("copy/head"), "-");
	CHECK(mirror_tend(m, 3.1) == 0);
	CHECK_STR(at("copy/head"), "head 1");
	CHECK(mirror_tend(m, 4.2) == 0);
	CHECK_STR(at("copy/head"), "head 2");
	end(m);
}

/* A fault of one file has hit, and says what. */
static void told(struct mirror *m, enum fault_kind k, const char *want)
{
	struct fault f;
	char what[256];

	CHECK(mirror_told(m, &f, what) == 1 && f.kind == k);
	CHECK_STR(what, want);
	CHECK(mirror_told(m, &f, what) == 0);
}

static void what_is_damaged_comes_good_later(void)
{
	struct mirror *m = begin();

	strike(m, FAULT_TRUNCATE, FAULT_ANSWER, 1, 2, 0.5);
	strike(m, FAULT_FLIP, FAULT_HEAD, 1, 2, 0.5);
	put("copy/learner/a/beat", "beat 1");
	CHECK(mirror_tend(m, 1) == 0);
	CHECK_STR(at("run/learner/a/beat"), "beat 1");
	put("copy/learner/a/f000.1.delta", "0123456789");
	CHECK(mirror_tend(m, 2) == 0);
	CHECK_STR(at("run/learner/a/f000.1.delta"), "01234");
	CHECK_STR(at("copy/learner/a/f000.1.delta"), "0123456789");
	told(m, FAULT_TRUNCATE, "learner/a/f000.1.delta: 5 of 10 bytes");
	put("copy/learner/a/f000.2.delta", "another");
	put("run/head", "head");
	CHECK(mirror_tend(m, 3) == 0);
	CHECK_STR(at("run/learner/a/f000.2.delta"), "another");
	CHECK_STR(at("copy/head"), "he`d");
	CHECK_STR(at("run/head"), "head");
	told(m, FAULT_FLIP, "head: bit 0 of byte 2");
	CHECK(mirror_tend(m, 4) == 0);
	CHECK_STR(at("run/learner/a/f000.1.delta"), "0123456789");
	CHECK_STR(at("copy/head"), "he`d");
	put("run/head", "newer");
	CHECK(mirror_tend(m, 4.5) == 0);
	CHECK_STR(at("copy/head"), "newer");
	CHECK(mirror_tend(m, 6) == 0);
	CHECK_STR(at("copy/head"), "newer"); /* the good one is older, and not wanted any more */
	end(m);
}

static void a_duplicate_has_a_wrong_name_too(void)
{
	struct mirror *m = begin();

	strike(m, FAULT_DUPLICATE, FAULT_ANSWER, 1, 1, 0);
	put("copy/learner/a/f000.9.delta", "answer");
	CHECK(mirror_tend(m, 1) == 0);
	CHECK_STR(at("run/learner/a/f000.9.delta"), "answer");
	CHECK_STR(at("run/learner/a/f000.10.delta"), "answer");
	told(m, FAULT_DUPLICATE, "learner/a/f000.9.delta: twice, and as learner/a/f000.10.delta");
	CHECK(mirror_tend(m, 2) == 0);
	CHECK_STR(at("run/learner/a/f000.9.delta"), "answer");
	put("copy/learner/a/f000.10.delta", "the next");
	CHECK(mirror_tend(m, 3) == 0);
	CHECK_STR(at("run/learner/a/f000.10.delta"), "the next");
	end(m);
}

static void an_old_file_comes_again(void)
{
	struct mirror *m = begin();

	strike(m, FAULT_REPLAY, FAULT_HEAD, 1, 2, 0);
	put("run/head", "head 1"); /* nothing to replay yet */
	CHECK(mirror_tend(m, 1) == 0);
	CHECK_STR(at("copy/head"), "head 1");
	put("run/head", "head 2");
	CHECK(mirror_tend(m, 3) == 0);
	CHECK_STR(at("copy/head"), "head 1");
	told(m, FAULT_REPLAY, "head: as head was 2 s before");
	CHECK(mirror_tend(m, 4) == 0);
	CHECK_STR(at("copy/head"), "head 1");
	CHECK(mirror_tend(m, 5.1) == 0);
	CHECK_STR(at("copy/head"), "head 2");
	end(m);
}

static void healed_all_is_as_it_should_be(void)
{
	struct mirror *m = begin();

	strike(m, FAULT_FLIP, FAULT_HEAD, 1, 1000, 0.5);
	strike(m, FAULT_FLIP, FAULT_STATE, 1, 1000, 0.5);
	put("run/head", "head");
	CHECK(mirror_tend(m, 1) == 0);
	CHECK_STR(at("copy/head"), "he`d");
	told(m, FAULT_FLIP, "head: bit 0 of byte 2");
	strike(m, FAULT_CUT, 0, 1, 1000, 0);
	put("copy/learner/a/beat", "last");
	CHECK(mirror_tend(m, 2) == 0);
	CHECK_STR(at("run/learner/a/beat"), "-");
	CHECK(mirror_heal(m, 3) == 0);
	CHECK_STR(at("copy/head"), "head");
	CHECK_STR(at("run/learner/a/beat"), "last");
	told(m, FAULT_FLIP, "absorbed: no such file came");
	end(m);
}

int main(void)
{
	CHECK(mkdtemp(top) && chdir(top) == 0);
	files_go_both_ways();
	what_a_learner_had_before_is_its_own_again();
	nothing_passes_a_cut();
	what_is_delayed_comes_in_order();
	the_old_replaces_the_new_when_reordered();
	what_is_damaged_comes_good_later();
	a_duplicate_has_a_wrong_name_too();
	an_old_file_comes_again();
	healed_all_is_as_it_should_be();
	CHECK(system("rm -rf run copy spool") == 0 && chdir("/") == 0 && rmdir(top) == 0);
	return unit_done("mirror");
}
