#include "io/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/fd.h"

/* What is there under these names, to be compared with others. */
#define STANDARD_INPUT "/proc/self/fd/0"
#define STANDARD_OUTPUT "/proc/self/fd/1"

static bool is_standard(const char *path)
{
	return !path || strcmp(path, "-") == 0;
}

const char *output_name(const char *path)
{
	return is_standard(path) ? "standard output" : path;
}

int output_apart(const char *path, const char *what, const char *other, const char *is)
{
	const char *to = is_standard(path) ? STANDARD_OUTPUT : path;

	if (!other || !atomic_same(to, strcmp(other, "-") == 0 ? STANDARD_INPUT : other))
		return 0;
	return err_set(ERR_USAGE, "%s: is %s, which %s would replace", output_name(path), is, what);
}

int output_apart_all(const char *path, char *const *inputs, size_t n)
{
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++)
		rc = output_apart(path, "the output", inputs[i], "an input");
	return rc;
}

/* One of the state's files, by what is added to the name that its links lead to. */
static int apart_from(const char *path, const char *what, const char *target, const char *suffix, const char *is)
{
	char *own;
	int rc;

	if (asprintf(&own, "%s%s", target, suffix) < 0)
		return err_nomem();
	rc = output_apart(path, what, own, is);
	free(own);
	return rc;
}

int output_apart_state(const char *path, const char *what, const char *state)
{
	static const char *const own[][2] = { { "", "the state" }, { ".lock", "the lock of the state" },
		{ ".prev", "the copy of the state before" } };
	char *target;
	int rc = state ? atomic_target(state, &target) : 0;

	if (!state || rc < 0)
		return rc;
	for (size_t i = 0; rc == 0 && i < sizeof own / sizeof *own; i++)
		rc = apart_from(path, what, target, own[i][0], own[i][1]);
	free(target);
	return rc;
}

/* A device or a pipe is written to, not replaced: what the user wants is standard output. */
static int say_redirect(int rc, const char *path)
{
	struct stat st;

	if (rc != ERR_IO || stat(path, &st) < 0 || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))
		return rc;
	return err_set(ERR_IO, "%s: not a regular file, so it can't be replaced: give '-' as the output, and > %s",
		path, path);
}

int output_open(struct output *o, const char *path, const char *what, const int *inputs, size_t n)
{
	int rc;

	*o = (struct output)OUTPUT_INIT;
	if (is_standard(path)) {
		rc = fd_output_fits(what, inputs, n);
		if (rc == 0)
			o->fd = STDOUT_FILENO;
		return rc;
	}
	rc = atomic_open(&o->file, path, 0666);
	o->fd = o->file.fd;
	return rc < 0 ? say_redirect(rc, path) : 0;
}

int output_commit(struct output *o)
{
	o->fd = -1;
	return o->file.path ? atomic_commit(&o->file) : fd_close_output();
}

void output_abort(struct output *o)
{
	o->fd = -1;
	atomic_abort(&o->file);
}
