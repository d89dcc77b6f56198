#include "round/rundir.h"

#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/num.h"
#include "io/atomic.h"
#include "io/dir.h"
#include "io/fd.h"
#include "io/output.h"
#include "round/fragment.h"

int rundir_enter(const char *run)
{
	struct stat st;
	int rc = fd_named(run);

	if (rc < 0)
		return rc;
	if (chdir(run) < 0)
		return err_sys("%s", run);
	if (lstat(RUNDIR_MANIFEST, &st) == 0)
		return 0;
	if (errno != ENOENT)
		return err_sys("%s: manifest", run);
	return err_set(ERR_DATA, "%s: not a run directory, it has no manifest (dl-init -r makes one)", run);
}

/* RUN/NAME: the file itself, there or not. */
static int apart_from_file(const char *run, const char *name, const char *output)
{
	char *own;
	int rc;

	if (asprintf(&own, "%s/%s", run, name) < 0)
		return err_nomem();
	rc = output_apart(output, "the output", own, "a file of the run");
	free(own);
	return rc;
}

/* RUN/NAME/ and all below it: what would be in `place`, a directory. */
static int apart_from_dir(const char *run, const char *name, const char *output, const char *place)
{
	char *own;
	int rc = 0;

	if (asprintf(&own, "%s/%s", run, name) < 0)
		return err_nomem();
	if (dir_holds(own, place))
		rc = err_set(ERR_USAGE, "%s: is in %s/ of the run, where only its own files go: give another place",
			output, name);
	free(own);
	return rc;
}

static int apart(const char *run, const char *output)
{
	static const char *const files[] = { RUNDIR_MANIFEST, RUNDIR_HEAD };
	static const char *const dirs[] = { "global", "syncer", "learner", "ckpt" };
	char *target, *place;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < sizeof files / sizeof *files; i++)
		rc = apart_from_file(run, files[i], output);
	if (rc < 0 || strcmp(output, "-") == 0 || atomic_target(output, &target) < 0)
		return rc; /* what can't be written is told by who opens it */
	place = dirname(target);
	for (size_t i = 0; rc == 0 && i < sizeof dirs / sizeof *dirs; i++)
		rc = apart_from_dir(run, dirs[i], output, place);
	free(target);
	return rc;
}

int rundir_apart(const char *run, const char *output)
{
	char *name = strdup(output ? output : "-");
	int rc;

	if (!name)
		return err_nomem();
	for (size_t n = strlen(name); n > 1 && name[n - 1] == '/'; n--)
		name[n - 1] = '\0'; /* a directory's name may end so */
	rc = apart(run, name);
	free(name);
	return rc;
}

int rundir_there(void)
{
	char here[PATH_MAX];
	struct stat st;

	if ((getcwd(here, sizeof here) || errno != ENOENT) && (stat(".", &st) == 0 || errno != ESTALE))
		return 0;
	return err_set(ERR_DATA, "the run directory was removed");
}

int rundir_absolute(const char *path, char **out)
{
	char here[PATH_MAX];
	int rc = fd_named(path); /* with the current directory before it, it would be that one */

	if (rc < 0)
		return rc;
	if (path[0] == '/' || strcmp(path, "-") == 0) {
		*out = strdup(path);
		return *out ? 0 : err_nomem();
	}
	if (!getcwd(here, sizeof here))
		return err_sys("the current directory");
	if (asprintf(out, "%s/%s", here, path) < 0) {
		*out = NULL;
		return err_nomem();
	}
	return 0;
}

int rundir_absolute_variable(const char *name)
{
	const char *value = getenv(name);
	char *path;
	int rc;

	if (!value || !*value)
		return 0;
	rc = rundir_absolute(value, &path);
	if (rc == 0 && setenv(name, path, 1) < 0)
		rc = err_sys("%s", name);
	if (rc == 0)
		free(path);
	return rc;
}

/* ---- paths ---- */

char *rundir_fragment(char *to, unsigned fragment, uint64_t version)
{
	snprintf(to, RUNDIR_PATH, "global/f%03u/%" PRIu64 ".frag", fragment, version);
	return to;
}

char *rundir_outer(char *to, unsigned fragment, uint64_t version)
{
	snprintf(to, RUNDIR_PATH, "syncer/outer/f%03u/%" PRIu64 ".outer", fragment, version);
	return to;
}

char *rundir_beat(char *to, const char *learner)
{
	snprintf(to, RUNDIR_PATH, "learner/%s/beat", learner);
	return to;
}

char *rundir_state(char *to, const char *learner)
{
	snprintf(to, RUNDIR_PATH, "learner/%s/state", learner);
	return to;
}

char *rundir_delta(char *to, const char *learner, unsigned fragment, uint64_t round)
{
	snprintf(to, RUNDIR_PATH, "learner/%s/f%03u.%" PRIu64 ".delta", learner, fragment, round);
	return to;
}

char *rundir_epoch(char *to, uint64_t epoch)
{
	snprintf(to, RUNDIR_PATH, "syncer/epoch.%" PRIu64, epoch);
	return to;
}

char *rundir_ckpt(char *to, uint64_t step)
{
	snprintf(to, RUNDIR_PATH, "ckpt/%" PRIu64 ".ckpt", step);
	return to;
}

/* ---- names ---- */

char *rundir_fragment_name(char *to, unsigned fragment)
{
	snprintf(to, 5, "f%03u", fragment % FRAGMENT_MAX);
	return to;
}

static bool is_fragment(const char *text, unsigned *fragment)
{
	if (text[0] != 'f' || strspn(text + 1, "0123456789") < 3)
		return false;
	*fragment = (unsigned)((text[1] - '0') * 100 + (text[2] - '0') * 10 + (text[3] - '0'));
	return true;
}

int rundir_fragment_parse(const char *text, unsigned *fragment)
{
	if (strlen(text) == 4 && is_fragment(text, fragment))
		return 0;
	return err_set(ERR_DATA, "'%.16s' is not the name of a fragment, such as f007", text);
}

bool rundir_delta_parse(const char *name, unsigned *fragment, uint64_t *round)
{
	char digits[24];
	const char *dot;

	if (!is_fragment(name, fragment) || name[4] != '.' || !(dot = strchr(name + 5, '.')) ||
		(size_t)(dot - (name + 5)) >= sizeof digits || strcmp(dot, ".delta") != 0)
		return false;
	snprintf(digits, sizeof digits, "%.*s", (int)(dot - (name + 5)), name + 5);
	/* one way of writing a number */
	return digits[0] != '0' && num_u64(digits, round) == 0;
}
