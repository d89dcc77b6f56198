/* tool - other programs run to their end. */
#include "io/tool.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/fd.h"
#include "io/wake.h"
#include "unit.h"

#define SH(script) { "sh", "-c", (script), NULL }

static void what_it_prints_is_read(void)
{
	const char *const words[] = SH("cat; echo one; echo two");
	struct buf text = BUF_INIT;

	CHECK(tool_read(&text, words, 100) == 0);
	CHECK_STR(text.data, "one\ntwo\n");
	buf_clear(&text);
	CHECK(tool_read(&text, words, 3) == ERR_DATA);
	buf_release(&text);
}

static void a_pipeline_passes_it_on(void)
{
	const char *const a[] = SH("for i in 1 2 3; do echo line $i; done");
	const char *const b[] = { "sed", "s/line/row/", NULL };
	const char *const c[] = { "tail", "-n", "1", NULL };
	const char *const *const all[] = { a, b, c };
	struct buf text = BUF_INIT;
	int fd;

	CHECK(fd_temporary(&fd) == 0);
	CHECK(tool_pipe(all, 3, -1, fd) == 0);
	CHECK(lseek(fd, 0, SEEK_SET) == 0 && fd_slurp(fd, 100, &text) == 0);
	CHECK_STR(text.data, "row 3\n");
	close(fd);
	buf_release(&text);
}

static void failures_keep_their_words_and_their_code(void)
{
	const char *const usage[] = SH("echo first >&2; echo 'prog: what is wrong' >&2; exit 2");
	const char *const stranger[] = SH("echo x >&2; exit 3");
	const char *const busy[] = SH("echo x >&2; exit 4");
	const char *const silent[] = SH("exit 9");
	const char *const none[] = { "no-such-program-at-all", NULL };

	CHECK(tool_run(usage, -1, -1) == ERR_USAGE);
	CHECK_STR(err_text(), "prog: what is wrong");
	CHECK(tool_run(stranger, -1, -1) == ERR_AUTH);
	CHECK(tool_run(busy, -1, -1) == ERR_AGAIN);
	CHECK(tool_run(silent, -1, -1) == ERR_DATA);
	CHECK_STR(err_text(), "sh: exit status 9");
	CHECK(tool_run(none, -1, -1) == ERR_IO);
	CHECK_SAYS("no-such-program-at-all: not found");
}

/* Not the writer that only found nobody reading. */
static void the_one_to_blame_is_named(void)
{
	const char *const endless[] = SH("while :; do echo y; done");
	const char *const broken[] = SH("echo 'second: broken' >&2; exit 1");
	const char *const none[] = { "no-such-program-at-all", NULL };
	const char *const *const all[] = { endless, broken };
	const char *const *const missing[] = { endless, none };

	CHECK(tool_pipe(all, 2, -1, -1) == ERR_DATA);
	CHECK_STR(err_text(), "second: broken");
	CHECK(tool_pipe(missing, 2, -1, -1) == ERR_IO);
	CHECK_SAYS("no-such-program-at-all: not found");
}

static void counts_are_words(void)
{
	struct tool_command c = { .n = 0 };
	struct buf text = BUF_INIT;

	tool_add(&c, "echo");
	tool_add_count(&c, "-a", 7);
	tool_add_count(&c, "-b", 0);
	tool_add_count(&c, "-c", UINT64_MAX);
	CHECK(tool_read(&text, c.v, 100) == 0);
	CHECK_STR(text.data, "-a 7 -c 18446744073709551615\n");
	buf_release(&text);
}

/* A command that lost a word would be another one. */
static void too_many_words_are_no_command(void)
{
	struct tool_command c = { .n = 0 };

	tool_add(&c, "true");
	while (c.n < TOOL_WORDS - 1)
		tool_add(&c, "word");
	CHECK(tool_run(c.v, -1, -1) == 0);
	tool_add_pair(&c, "no", NULL);
	CHECK(tool_run(c.v, -1, -1) == 0);
	tool_add(&c, "more");
	CHECK(tool_run(c.v, -1, -1) == ERR_USAGE);
	CHECK_STR(err_text(), "a command of more than 63 words: give fewer options");
}

/* One that asks its parent to stop, and the other, both of which would go on for minutes. */
static int run_asked(const char *signal_name)
{
	char script[64];
	const char *const asks[] = SH(script), *const waits[] = { "sleep", "600", NULL };
	const char *const *const all[] = { asks, waits };

	snprintf(script, sizeof script, "kill -%s $PPID; exec sleep 600", signal_name);
	return tool_pipe(all, 2, -1, -1);
}

static void a_request_to_stop_reaches_all_of_them(void)
{
	static const struct { const char *name; int number; } ask[] = {
		{ "INT", SIGINT }, { "TERM", SIGTERM }, { "HUP", SIGHUP } };
	const char *const none[] = { "no-such-program-at-all", NULL };

	for (size_t i = 0; i < 2 * (sizeof ask / sizeof *ask); i++) {
		bool caught = i % 2;
		int number = ask[i / 2].number, status;
		pid_t pid = fork();

		if (pid == 0) {
			signal(number, SIG_DFL);
			if (caught && wake_catch() < 0)
				_exit(1);
			if (run_asked(ask[i / 2].name) != ERR_IO || strcmp(err_text(), "interrupted") != 0 ||
			    wake_requested() != number)
				_exit(2);
			_exit(tool_run(none, -1, -1) == ERR_IO && strcmp(err_text(), "interrupted") == 0 ? 9 : 3);
		}
		alarm(60);
		CHECK(waitpid(pid, &status, 0) == pid);
		alarm(0);
		CHECK(caught ? WIFEXITED(status) && WEXITSTATUS(status) == 9 :
			WIFSIGNALED(status) && WTERMSIG(status) == number);
	}
}

int main(void)
{
	what_it_prints_is_read();
	a_pipeline_passes_it_on();
	failures_keep_their_words_and_their_code();
	the_one_to_blame_is_named();
	counts_are_words();
	too_many_words_are_no_command();
	a_request_to_stop_reaches_all_of_them();
	return unit_done("tool");
}
