#include "io/spool.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "io/fd.h"
#include "unit.h"

static void put(int fd, size_t n)
{
	char *text = malloc(n + 1);

	memset(text, 'x', n + 1);
	CHECK(fd_write(fd, text, n) == 0);
	free(text);
}

/* A silent pipe, one too long, an empty one and a good one: each fares for itself. */
static void each_for_itself(void)
{
	struct clock clock = clock_monotonic();
	struct spool v[4];
	int end[4][2];
	uint64_t size;
	char text[100];

	for (int i = 0; i < 4; i++) {
		CHECK(pipe2(end[i], O_CLOEXEC) == 0);
		v[i].from = end[i][0];
	}
	put(end[1][1], 3000);
	put(end[3][1], 1000);
	for (int i = 1; i < 4; i++)
		close(end[i][1]);
	CHECK(spool_run(v, 4, 2000, 0.05, &clock) == 0);
	CHECK(v[0].to == -1 && v[0].note.code == ERR_IO);
	CHECK_STR(v[0].note.text, "not complete after 0.05 seconds");
	CHECK(v[1].to == -1 && v[1].note.code == ERR_DATA);
	CHECK_STR(v[1].note.text, "longer than 2000 bytes");
	CHECK(v[2].to >= 0 && fd_regular(v[2].to, &size) && size == 0 && v[2].note.code == 0);
	CHECK(v[3].to >= 0 && fd_regular(v[3].to, &size) && size == 1000);
	CHECK(fd_read(v[3].to, text, sizeof text) == 100 && text[99] == 'x');
	close(end[0][1]);
	for (int i = 0; i < 4; i++) {
		close(end[i][0]);
		if (v[i].to >= 0)
			close(v[i].to);
	}
}

static void none_is_fine(void)
{
	struct clock clock = clock_monotonic();

	CHECK(spool_run(NULL, 0, 0, 0, &clock) == 0);
}

static void no_place_for_the_copy(void)
{
	struct clock clock = clock_monotonic();
	struct spool one;
	int end[2];

	setenv("TMPDIR", "/nowhere/at/all", 1);
	CHECK(pipe2(end, O_CLOEXEC) == 0);
	one.from = end[0];
	CHECK(spool_run(&one, 1, 2000, 0, &clock) == 0);
	CHECK(one.to == -1 && one.note.code == ERR_IO);
	CHECK(strstr(one.note.text, "temporary file in '/nowhere/at/all': ") != NULL);
	close(end[0]);
	close(end[1]);
}

int main(void)
{
	each_for_itself();
	none_is_fine();
	no_place_for_the_copy();
	return unit_done("spool");
}
