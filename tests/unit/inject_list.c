/* inject_list - which processes are to run, and of which run they are */
#include "chaos/inject_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

static char top[] = "/tmp/list-XXXXXX";

static const char *parse(struct inject_list *l, const char *text)
{
	inject_list_release(l);
	return inject_list_parse(l, text, strlen(text)) < 0 ? err_text() : "";
}

static void lines_are_processes(void)
{
	struct inject_list l = { 0 };

	CHECK_STR(parse(&l, "# a list\n\na sh -c 'exit  0'\r\n  b.2 /bin/sh x # y"), "");
	CHECK(l.n == 2 && !l.run);
	CHECK_STR(l.v[0].name, "a");
	CHECK(strcmp(l.v[0].path + strlen(l.v[0].path) - 3, "/sh") == 0 && l.v[0].path[0] == '/');
	CHECK(l.v[0].words.n == 3);
	CHECK_STR(l.v[0].words.v[2], "exit  0");
	CHECK_STR(l.v[1].name, "b.2");
	CHECK(l.v[1].words.n == 2 && !l.v[1].words.v[2] && !l.v[1].learner && !l.v[1].syncer);
	inject_list_release(&l);
}

static void those_of_a_run_are_known(void)
{
	struct inject_list l = { 0 };
	char want[64];

	CHECK_STR(parse(&l, "s ./dl-sync -r run\na ./dl-learn -rrun -i x -d a.tok\nb ./dl-learn --run=./run --id=y\n"
			    "c sh -r other\nd ./dl-learn -d x -- -r run"), "");
	snprintf(want, sizeof want, "%s/run", top);
	CHECK_STR(l.run, want);
	CHECK(l.v[0].syncer && !l.v[0].learner && !l.v[3].learner && !l.v[4].learner);
	CHECK_STR(l.v[1].learner, "x");
	CHECK_STR(l.v[2].learner, "y");
	CHECK(inject_list_move(&l.v[0], "/m/0") == 0 && inject_list_move(&l.v[1], "/m/1") == 0 &&
	      inject_list_move(&l.v[2], "/m/2") == 0);
	CHECK_STR(l.v[0].words.v[2], "/m/0");
	CHECK_STR(l.v[1].words.v[1], "-r/m/1");
	CHECK_STR(l.v[2].words.v[1], "--run=/m/2");
	inject_list_release(&l);
}

static void mistakes_are_told_by_line(void)
{
	struct inject_list l = { 0 };
	bool spared[2];

	CHECK_STR(parse(&l, ""), "no process: one a line, NAME COMMAND WORD...");
	CHECK_STR(parse(&l, "a sh\nb"), "line 2: 'b' has no command: NAME COMMAND WORD...");
	CHECK_STR(parse(&l, "a sh\na sh"), "line 2: a second process called 'a'");
	CHECK_STR(parse(&l, "a sh 'x"), "line 1: a quotation that does not end");
	CHECK_STR(parse(&l, "a no-such-program"), "line 1: no-such-program: not found beside this program nor on the PATH");
	CHECK_STR(parse(&l, "a ./dl-learn -r run"), "line 1: a: give the learner a name of its own with -i");
	CHECK_STR(parse(&l, "a ./dl-learn -r run -i ../x"), "line 1: a: give the learner a name of its own with -i");
	CHECK_STR(parse(&l, "a ./dl-learn -r run -i x\nb ./dl-learn -r run -i x"), "line 2: b: learner 'x' is a already");
	CHECK_STR(parse(&l, "a ./dl-sync -r run\nb ./dl-sync -r ."), "line 2: a second run, '.': all processes must be of one");
	CHECK(strstr(parse(&l, "a ./dl-sync -r nowhere"), "line 1: nowhere: ") != NULL);
	CHECK(strstr(parse(&l, "a/b sh"), "line 1: ") != NULL);
	CHECK_STR(parse(&l, "a sh\nb sh"), "");
	CHECK(inject_list_choose(&l, NULL, spared) == 0 && !spared[0] && !spared[1]);
	CHECK(inject_list_choose(&l, "b", spared) == 0 && spared[0] && !spared[1]);
	CHECK(inject_list_choose(&l, "b,a", spared) == 0 && !spared[0] && !spared[1]);
	CHECK(inject_list_choose(&l, "c", spared) == ERR_USAGE);
	CHECK_STR(err_text(), "there is no process 'c'");
	CHECK(inject_list_choose(&l, "", spared) == ERR_USAGE);
	inject_list_release(&l);
}

int main(void)
{
	CHECK(mkdtemp(top) && chdir(top) == 0 && mkdir("run", 0777) == 0);
	CHECK(symlink("/bin/sh", "dl-sync") == 0 && symlink("/bin/sh", "dl-learn") == 0);
	lines_are_processes();
	those_of_a_run_are_known();
	mistakes_are_told_by_line();
	CHECK(unlink("dl-sync") == 0 && unlink("dl-learn") == 0 && rmdir("run") == 0 && chdir("/") == 0 && rmdir(top) == 0);
	return unit_done("inject_list");
}
