/* metrics - the table of training steps. */
#include "round/metrics.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "io/fd.h"
#include "unit.h"

static const char columns[] = "global_step\tstep\ttokens\tloss\tlr\tgrad_norm\ttokens_per_s\n";

static void check_content(const char *path, const char *want)
{
	struct buf have = BUF_INIT;
	int fd = open(path, O_RDONLY);

	CHECK(fd >= 0 && fd_slurp(fd, 4096, &have) == 0);
	CHECK_STR(have.data, want);
	buf_release(&have);
	close(fd);
}

static void appends_whole_lines_under_one_head(const char *path)
{
	const struct metrics_row row = { 101, 1, 4096, 2.5, 0.003, 0.125, 1234.4 };
	char want[256];
	struct metrics m;

	for (int i = 0; i < 2; i++) {
		CHECK(metrics_open(&m, path, false) == 0);
		CHECK(metrics_add(&m, &row) == 0);
		metrics_close(&m);
	}
	snprintf(want, sizeof want, "%s%s%s", columns, "101\t1\t4096\t2.5\t0.003\t0.125\t1234\n",
		"101\t1\t4096\t2.5\t0.003\t0.125\t1234\n");
	check_content(path, want);
}

static void experts_have_columns_of_their_own(const char *path)
{
	const struct metrics_row row = { 101, 1, 4096, 2.5, 0.003, 0.125, 1234.4, 2.25, 0.5, 0.75 };
	struct metrics m;

	CHECK(metrics_open(&m, path, true) == ERR_DATA);
	CHECK_SAYS("is there already and no table of metrics of experts");
	CHECK(truncate(path, 0) == 0);
	CHECK(metrics_open(&m, path, true) == 0 && metrics_add(&m, &row) == 0);
	metrics_close(&m);
	CHECK(metrics_open(&m, path, true) == 0);
	metrics_close(&m);
	check_content(path,
		"global_step\tstep\ttokens\tloss\tlr\tgrad_norm\t"
		"expert_balance\texpert_cv\texpert_least\ttokens_per_s\n"
		"101\t1\t4096\t2.5\t0.003\t0.125\t2.25\t0.5\t0.75\t1234\n");
	CHECK(metrics_open(&m, path, false) == ERR_DATA);
}

static void another_file_is_left_alone(const char *path)
{
	struct metrics m;
	int fd = open(path, O_WRONLY | O_TRUNC);

	CHECK(fd >= 0 && fd_write(fd, "a letter\n", 9) == 0 && close(fd) == 0);
	CHECK(metrics_open(&m, path, false) == ERR_DATA);
	CHECK_SAYS("is there already and no table of metrics");
	check_content(path, "a letter\n");
}

static void errors_name_the_file(void)
{
	const struct metrics_row row = { 1, 1, 1, 1, 1, 1, 1 };
	struct metrics m = METRICS_INIT;

	CHECK(metrics_open(&m, "/nonexistent/m.tsv", false) == ERR_IO);
	CHECK_SAYS("/nonexistent/m.tsv: cannot open: No such file");
	CHECK(metrics_add(&m, &row) == 0); /* none asked for: nothing to do */
	if (access("/dev/full", W_OK) == 0) {
		CHECK(metrics_open(&m, "/dev/full", false) == 0);
		CHECK(metrics_add(&m, &row) == ERR_IO);
		CHECK_SAYS("No space left");
		metrics_close(&m);
	}
}

int main(void)
{
	char path[] = "/tmp/unit-metrics-XXXXXX";
	int fd = mkstemp(path);

	CHECK(fd >= 0);
	close(fd);
	appends_whole_lines_under_one_head(path);
	experts_have_columns_of_their_own(path);
	another_file_is_left_alone(path);
	errors_name_the_file();
	unlink(path);
	return unit_done("metrics");
}
