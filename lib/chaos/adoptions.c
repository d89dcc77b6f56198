#include "chaos/adoptions.h"

#include <stdlib.h>
#include <unistd.h>

void adoptions_release(struct adoptions *a)
{
	for (unsigned p = 0; p < a->fragments; p++)
		free(a->fragment[p].left);
	free(a->fragment);
	*a = (struct adoptions){ .fragment = NULL };
}

/* A trace makes version after version, and only what was made is adopted: room for the next one will do. */
static int make_version(struct adoptions_fragment *f)
{
	size_t n = f->versions;
	uint32_t *left;

	if ((n & (n - 1)) == 0) { /* a power of two: full */
		if (!(left = realloc(f->left, (n ? 2 * n : 1) * sizeof *left)))
			return err_nomem();
		f->left = left;
	}
	f->left[f->versions++] = 0;
	return 0;
}

static int event(struct adoptions *a, const struct trace_event *e)
{
	if (e->kind == TRACE_MERGE)
		return make_version(&a->fragment[e->fragment]);
	if (e->kind == TRACE_ADOPT)
		a->fragment[e->fragment].left[e->version]++;
	return 0;
}

static int read_all(struct adoptions *a, struct trace_reader *r)
{
	unsigned n = trace_head(r)->fragments;
	struct trace_event e;
	int rc = 0;

	if (!(a->fragment = calloc(n, sizeof *a->fragment)))
		return err_nomem();
	a->fragments = n;
	for (unsigned p = 0; p < n && rc == 0; p++)
		rc = make_version(&a->fragment[p]); /* number 0 */
	while (rc == 0 && (rc = trace_next(r, &e)) == 1)
		rc = event(a, &e);
	return rc;
}

int adoptions_scan(struct adoptions *a, struct trace_reader **out, int fd)
{
	struct trace_reader *r = NULL;
	int rc = trace_open(&r, fd);

	*a = (struct adoptions){ .fragment = NULL };
	if (rc == 0)
		rc = read_all(a, r);
	trace_close(r);
	if (rc == 0 && lseek(fd, 0, SEEK_SET) < 0)
		rc = err_sys("trace");
	return rc < 0 ? rc : trace_open(out, fd);
}

uint32_t adoptions_left(const struct adoptions *a, unsigned fragment, uint64_t version)
{
	const struct adoptions_fragment *f = &a->fragment[fragment];

	return version < f->versions ? f->left[version] : 0;
}

void adoptions_done(struct adoptions *a, unsigned fragment, uint64_t version)
{
	if (adoptions_left(a, fragment, version))
		a->fragment[fragment].left[version]--;
}
