#include "round/rundir.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

static void paths(void)
{
	char to[RUNDIR_PATH], name[KEY_NAME + 1], text[5];

	memset(name, 'x', KEY_NAME);
	name[KEY_NAME] = '\0';
	CHECK_STR(rundir_fragment(to, 7, 42), "global/f007/42.frag");
	CHECK_STR(rundir_outer(to, 0, 1), "syncer/outer/f000/1.outer");
	CHECK_STR(rundir_beat(to, "a"), "learner/a/beat");
	CHECK_STR(rundir_state(to, "a"), "learner/a/state");
	CHECK_STR(rundir_delta(to, "a", 999, 3), "learner/a/f999.3.delta");
	CHECK_STR(rundir_epoch(to, 1), "syncer/epoch.1");
	CHECK_STR(rundir_ckpt(to, 480), "ckpt/480.ckpt");
	CHECK_STR(rundir_fragment_name(text, 23), "f023");
	CHECK(strlen(rundir_delta(to, name, 999, UINT64_MAX)) < RUNDIR_PATH - 1);
	CHECK(strstr(to, ".18446744073709551615.delta") != NULL);
}

static bool delta(const char *name, unsigned want, uint64_t want_round)
{
	unsigned fragment = 5000;
	uint64_t round = 0;

	return rundir_delta_parse(name, &fragment, &round) && fragment == want && round == want_round;
}

static void names(void)
{
	static const char *const junk[] = { "", "f", "f00", "f0001.1.delta", "f007", "f007.", "f007.1",
		"f007.1.delta.tmp", "f007..delta", "f007.01.delta", "f007.0.delta", "f007.-1.delta",
		"f007.1.deltas", "f007.1.2.delta", "f007. 1.delta", "g007.1.delta", "F007.1.delta",
		"f00a.1.delta", "f007.18446744073709551616.delta", "f007.1111111111111111111111111.delta",
		"f007.1\n.delta", ".f007.1.delta", "f007.1.delta\n", "beat" };
	unsigned fragment;
	uint64_t round;

	CHECK(delta("f007.1.delta", 7, 1));
	CHECK(delta("f999.18446744073709551615.delta", 999, UINT64_MAX));
	for (size_t i = 0; i < sizeof junk / sizeof junk[0]; i++)
		CHECK(!rundir_delta_parse(junk[i], &fragment, &round));
	CHECK(rundir_fragment_parse("f999", &fragment) == 0 && fragment == 999);
	CHECK(rundir_fragment_parse("f000", &fragment) == 0 && fragment == 0);
	CHECK(rundir_fragment_parse("f00", &fragment) == ERR_DATA);
	CHECK(rundir_fragment_parse("f0000", &fragment) == ERR_DATA);
	CHECK(rundir_fragment_parse("f-01", &fragment) == ERR_DATA);
	CHECK(rundir_fragment_parse("", &fragment) == ERR_DATA);
}

static void entering(void)
{
	char *path, here[4096];
	int fd;

	CHECK(rundir_absolute("/etc", &path) == 0);
	CHECK_STR(path, "/etc");
	free(path);
	CHECK(rundir_absolute("-", &path) == 0);
	CHECK_STR(path, "-");
	free(path);
	CHECK(mkdir("run", 0700) == 0 && rundir_absolute("run", &path) == 0);
	CHECK(rundir_enter("nothing") == ERR_IO);
	CHECK_SAYS("nothing: No such file");
	CHECK(rundir_enter("run") == ERR_DATA);
	CHECK_SAYS("run: not a run directory");
	CHECK(chdir("..") == 0);
	fd = open("run/manifest", O_WRONLY | O_CREAT, 0600);
	CHECK(fd >= 0 && rundir_enter("run") == 0 && getcwd(here, sizeof here));
	close(fd);
	CHECK_STR(path, here);
	free(path);
}

/* Beside a run, in "there", which is the run's directory. */
static void sparing(void)
{
	static const char *const own[] = { "there/manifest", "there/head", "there/head/", "way", "there/global/x",
		"there/global/../global/f000/1.frag", "there/syncer/tape.1", "there/learner/new", "there/learner/new//",
		"there/ckpt/x", "down/x" };
	static const char *const others[] = { "x", "there/x", "there/x/", "there/global.svg", "-", "nowhere/x", "/" };

	CHECK(mkdir("there", 0700) == 0 && mkdir("there/global", 0700) == 0 && mkdir("there/global/f000", 0700) == 0);
	CHECK(mkdir("there/syncer", 0700) == 0 && mkdir("there/learner", 0700) == 0 && mkdir("there/ckpt", 0700) == 0);
	CHECK(symlink("there/head", "way") == 0 && symlink("there/global", "down") == 0);
	for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
		CHECK(rundir_apart("there", own[i]) == ERR_USAGE);
	for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
		CHECK(rundir_apart("there", others[i]) == 0);
	CHECK(rundir_apart("there", NULL) == 0);
	CHECK(unlink("way") == 0 && unlink("down") == 0 && rmdir("there/global/f000") == 0);
	CHECK(rmdir("there/global") == 0 && rmdir("there/syncer") == 0 && rmdir("there/learner") == 0);
	CHECK(rmdir("there/ckpt") == 0 && rmdir("there") == 0);
}

int main(void)
{
	char dir[] = "/tmp/dl-rundir-XXXXXX";

	if (!mkdtemp(dir) || chdir(dir) < 0)
		return 1;
	paths();
	names();
	sparing();
	entering();
	CHECK(unlink("manifest") == 0 && chdir("/") == 0);
	{
		char run[64];

		snprintf(run, sizeof run, "%s/run", dir);
		CHECK(rmdir(run) == 0 && rmdir(dir) == 0);
	}
	return unit_done("rundir");
}
