/* Any text is a trace or is refused; one that was read to its end comes back when it is written again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "chaos/trace.h"
#include "io/fd.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool good)
{
	if (!good)
		abort();
}

static int file_of(const void *bytes, size_t n)
{
	int fd;

	must(fd_temporary(&fd) == 0 && fd_write(fd, bytes, n) == 0 && lseek(fd, 0, SEEK_SET) == 0);
	return fd;
}

/* Copies a trace; how many events it has, negative when it is none. */
static int copy(int from, int to)
{
	struct trace_reader *r;
	struct trace_writer *w;
	struct trace_event e;
	int rc, events = 0;

	if (trace_open(&r, from) < 0)
		return -1;
	must(trace_create(&w, to, trace_head(r)) == 0);
	for (; (rc = trace_next(r, &e)) > 0; events++)
		must(trace_put(w, &e) == 0);
	must(trace_finish(w) == 0);
	trace_discard(w);
	trace_close(r);
	return rc < 0 ? -1 : events;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	int from = file_of(data, n), to = file_of("", 0), again = file_of("", 0), events = copy(from, to);

	if (events >= 0) {
		must(lseek(to, 0, SEEK_SET) == 0);
		must(copy(to, again) == events);
	}
	close(from);
	close(to);
	close(again);
	return 0;
}
