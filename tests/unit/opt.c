#include <stdlib.h>
#include <unistd.h>

#include "base/opt.h"
#include "unit.h"

struct options {
	bool verbose, quiet, given;
	uint64_t steps;
	double rate, time;
	const char *out;
};

static char **words;
static int n_words;

/* Parses the blank-separated words of line, which stays valid until the next call. */
static int parse(struct options *o, const char *line)
{
	static const char *const synopsis[] = {
		"dl-x [-v] [-n STEPS] FILE...",
		"dl-x list [--an-option-that-is-long VALUE] [--another-option VALUE] [--third VALUE]",
		NULL };
	const struct opt table[] = {
		{ 'v', "verbose", OPT_FLAG, &o->verbose, NULL, "say more on standard error", 0, 0, NULL },
		{ 'q', NULL, OPT_FLAG, &o->quiet, NULL, "say less", 0, 0, NULL },
		{ 'n', "steps", OPT_U64, &o->steps, "STEPS", "inner steps to run", 1, 1000, &o->given },
		{ 0, "rate", OPT_F64, &o->rate, "X",
		  "a rate that needs many words of explanation, so many that they do not fit on a line",
		  0, 1, NULL },
		{ 0, "for", OPT_SECONDS, &o->time, "TIME", "stop after that time", 0, 0, NULL },
		{ 'o', "output", OPT_TEXT, &o->out, "FILE", "where to write", 0, 0, NULL },
		{ 0, "output-format-of-the-file", OPT_TEXT, &o->out, "FORMAT", "how", 0, 0, NULL },
		OPT_END };
	const struct opt_prog prog = { "dl-x", "does something", synopsis, table };
	static char text[256];
	static char *argv[32];
	int argc = 0;

	*o = (struct options){ 0 };
	snprintf(text, sizeof text, "dl-x %s", line);
	for (char *p = strtok(text, " "); p; p = strtok(NULL, " "))
		argv[argc++] = p;
	return opt_parse(&prog, argc, argv, &words, &n_words);
}

static void refused(const char *line, const char *why)
{
	struct options o;

	CHECK(parse(&o, line) == ERR_USAGE);
	CHECK_STR(err_text(), why);
}

static void test_forms(void)
{
	struct options o;

	CHECK(parse(&o, "") == 0 && n_words == 0 && !o.given);
	CHECK(parse(&o, "-vqn 12 a -ofile - --rate=0.5 --for 9m b") == 0);
	CHECK(o.verbose && o.quiet && o.given && o.steps == 12 && o.rate == 0.5 && o.time == 540);
	CHECK_STR(o.out, "file");
	CHECK(n_words == 3);
	CHECK_STR(words[0], "a");
	CHECK_STR(words[1], "-");
	CHECK_STR(words[2], "b");
	CHECK(parse(&o, "-vn12 --ste 5") == ERR_USAGE);
	CHECK(parse(&o, "--ste 5 --verb -v") == 0 && o.steps == 5 && o.verbose);
	CHECK(parse(&o, "--output a --output-f b") == 0);
	CHECK(parse(&o, "-o -v x") == 0 && !o.verbose);
	CHECK_STR(o.out, "-v");
	CHECK(parse(&o, "-v -- -n --steps --") == 0 && n_words == 3);
	CHECK_STR(words[2], "--");
}

static void test_refusals(void)
{
	refused("--stpes 3", "unknown option '--stpes', did you mean '--steps'?");
	refused("--quorum", "unknown option '--quorum', see -h");
	refused("-z", "unknown option '-z', see -h");
	refused("-vz", "unknown option '-z', see -h");
	refused("-5", "unknown option '-5', see -h");
	refused("--out x", "option '--out' may be --output or --output-format-of-the-file");
	refused("-n", "option --steps needs a value: STEPS");
	refused("--rate", "option --rate needs a value: X");
	refused("-n 1 --steps 2", "option --steps given twice");
	refused("--verbose=yes", "option --verbose takes no value");
	refused("-n 0", "option --steps: 0 is not within 1 to 1000");
	refused("-n 1001", "option --steps: 1001 is not within 1 to 1000");
	refused("-n -1", "option --steps: '-1' is not a whole number");
	refused("--steps=", "option --steps: '' is not a whole number");
	refused("--rate 0.7abc", "option --rate: '0.7abc' is not a decimal number");
	refused("--rate 1.5", "option --rate: 1.5 is not within 0 to 1");
	refused("--rate nan", "option --rate: 'nan' is not a decimal number");
	refused("--for never",
		"option --for: 'never' is not a time such as 90, 90s, 9m, 1.5h or 2d, more than zero");
	refused("--\x1b[31m", "unknown option '--\\x1b[31m', see -h");
}

/* What parsing this line prints on standard output. Caller frees. */
static char *printed(const char *line)
{
	struct options o;
	char *text = calloc(1, 4096);
	int saved = dup(STDOUT_FILENO);
	FILE *f = tmpfile();

	CHECK(text && f && saved >= 0);
	if (!text || !f || saved < 0)
		return text;
	fflush(stdout);
	dup2(fileno(f), STDOUT_FILENO);
	CHECK(parse(&o, line) == 1);
	dup2(saved, STDOUT_FILENO);
	close(saved);
	rewind(f);
	CHECK(fread(text, 1, 4095, f) > 0);
	fclose(f);
	return text;
}

static void test_help(void)
{
	static const char want[] =
		"usage: dl-x [-v] [-n STEPS] FILE...\n"
		"       dl-x list [--an-option-that-is-long VALUE] [--another-option VALUE]\n"
		"            [--third VALUE]\n"
		"\n"
		"does something\n"
		"\n"
		"  -v, --verbose            say more on standard error\n"
		"  -q                       say less\n"
		"  -n, --steps STEPS        inner steps to run\n"
		"      --rate X             a rate that needs many words of explanation, so many\n"
		"                           that they do not fit on a line\n"
		"      --for TIME           stop after that time\n"
		"  -o, --output FILE        where to write\n"
		"      --output-format-of-the-file FORMAT\n"
		"                           how\n"
		"  -h, --help               print this and leave\n"
		"      --version            print the version and leave\n";
	static const char *const lines[] = { "-h", "--help", "-v a -n 3 --help -z", "-vh" };

	for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
		char *text = printed(lines[i]);

		CHECK_STR(text, want);
		free(text);
	}
}

static void test_version(void)
{
	char *text = printed("--version");

	CHECK_STR(text, "dl-x, dl tools 0.1\n");
	free(text);
}

int main(void)
{
	test_forms();
	test_refusals();
	test_help();
	test_version();
	return unit_done("opt");
}
