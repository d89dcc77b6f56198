#include "base/opt.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/conf.h"
#include "base/num.h"
#include "base/say.h"

#define TABLE_MAX 64 /* the options given so far are a bit set */
#define WIDTH 80
#define HELP_COLUMN 26

struct parse {
	const struct opt_prog *prog;
	int argc, at; /* argv[at] is the next word */
	char **argv;
	uint64_t given;
};

static bool at_end(const struct opt *o)
{
	return !o->letter && !o->name;
}

/* "-n" or "--steps": what to call an option in a message. */
static const char *called(const struct opt *o, char out[80])
{
	if (o->name)
		snprintf(out, 80, "--%s", o->name);
	else
		snprintf(out, 80, "-%c", o->letter);
	return out;
}

static int bad_value(const struct opt *o)
{
	char name[80];

	return err_at(ERR_USAGE, "option %s", called(o, name));
}

static int check_range(const struct opt *o, double x, const char *text)
{
	char low[32], high[32];

	if ((o->min == 0 && o->max == 0) || (x >= o->min && x <= o->max))
		return 0;
	num_f64_text(low, o->min);
	num_f64_text(high, o->max);
	err_set(ERR_USAGE, "%s is not within %s to %s", text, low, high);
	return bad_value(o);
}

static int store(const struct opt *o, const char *value)
{
	uint64_t u;
	double x;

	switch (o->type) {
	case OPT_FLAG:
		*(bool *)o->dest = true;
		return 0;
	case OPT_TEXT:
		*(const char **)o->dest = value;
		return 0;
	case OPT_U64:
	case OPT_COUNT:
		if ((o->type == OPT_U64 ? num_u64(value, &u) : num_count(value, &u)) < 0)
			return bad_value(o);
		if (check_range(o, (double)u, value) < 0)
			return ERR_USAGE;
		*(uint64_t *)o->dest = u;
		return 0;
	case OPT_F64:
	case OPT_SECONDS:
		if ((o->type == OPT_F64 ? num_f64(value, &x) : num_seconds(value, &x)) < 0)
			return bad_value(o);
		if (check_range(o, x, value) < 0)
			return ERR_USAGE;
		*(double *)o->dest = x;
		return 0;
	}
	return err_set(ERR_USAGE, "option of unknown type");
}

/* Takes one occurrence of o; value is NULL when it is in the next word. */
static int take(struct parse *p, const struct opt *o, const char *value)
{
	uint64_t bit = (uint64_t)1 << (o - p->prog->table);
	char name[80];

	if (o->type != OPT_FLAG) {
		if (p->given & bit)
			return err_set(ERR_USAGE, "option %s given twice", called(o, name));
		if (!value && p->at < p->argc)
			value = p->argv[p->at++];
		if (!value)
			return err_set(ERR_USAGE, "option %s needs a value: %s", called(o, name),
				       o->arg);
	} else if (value) {
		return err_set(ERR_USAGE, "option %s takes no value", called(o, name));
	}
	p->given |= bit;
	if (o->given)
		*o->given = true;
	return store(o, value);
}

/* Length of the next piece: up to a blank that is not inside of brackets. */
static int piece_length(const char *text)
{
	int depth = 0, n = 0;

	for (; text[n] && (text[n] != ' ' || depth > 0); n++)
		depth += (text[n] == '[') - (text[n] == ']');
	return n;
}

/* Prints text from `column` on, wrapped, further lines indented. */
static void print_wrapped(const char *text, int column, int indent)
{
	while (*text) {
		int n = piece_length(text);

		if (column + 1 + n > WIDTH && column > indent) {
			printf("\n%*s", indent, "");
			column = indent;
		}
		printf(" %.*s", n, text);
		column += 1 + n;
		text += n;
		text += strspn(text, " ");
	}
	putchar('\n');
}

/* "usage: dl-learn -n STEPS ...": what does not fit goes under the first option. */
static void print_synopsis(const char *const *line)
{
	for (int i = 0; line[i]; i++) {
		int name = (int)strcspn(line[i], " ");

		printf("%s %.*s", i == 0 ? "usage:" : "      ", name, line[i]);
		print_wrapped(line[i] + name + strspn(line[i] + name, " "), 7 + name, 7 + name);
	}
}

static void print_option(const struct opt *o)
{
	char left[80] = "", dash[8] = "    ";
	int n;

	if (o->letter)
		snprintf(dash, sizeof dash, "-%c%s", o->letter, o->name ? ", " : "");
	n = snprintf(left, sizeof left, "  %s%s%s%s%s", dash, o->name ? "--" : "",
		     o->name ? o->name : "", o->arg ? " " : "", o->arg ? o->arg : "");
	if (n > HELP_COLUMN - 1) {
		printf("%s\n%*s", left, HELP_COLUMN, "");
		n = HELP_COLUMN;
	} else {
		n = printf("%-*s", HELP_COLUMN, left);
	}
	print_wrapped(o->help, n, HELP_COLUMN);
}

static int print_help(const struct opt_prog *prog)
{
	static const struct opt common[] = {
		{ 'h', "help", OPT_FLAG, 0, 0, "print this and leave", 0, 0, 0 },
		{ 0, "version", OPT_FLAG, 0, 0, "print the version and leave", 0, 0, 0 },
	};

	print_synopsis(prog->synopsis);
	printf("\n%s\n\n", prog->summary);
	for (const struct opt *o = prog->table; !at_end(o); o++)
		print_option(o);
	print_option(&common[0]);
	print_option(&common[1]);
	return fflush(stdout) == 0 ? 1 : err_sys("standard output");
}

static int print_version(const struct opt_prog *prog)
{
	printf("%s, dl tools %s\n", prog->name, OPT_VERSION);
	return fflush(stdout) == 0 ? 1 : err_sys("standard output");
}

static int unknown_long(const struct parse *p, const char *name)
{
	const char *names[TABLE_MAX + 3] = { 0 }, *near;
	char shown[80];
	size_t n = 0;

	for (const struct opt *o = p->prog->table; !at_end(o) && n < TABLE_MAX; o++)
		if (o->name)
			names[n++] = o->name;
	names[n++] = "help";
	names[n] = "version";
	near = conf_nearest(name, names);
	say_escape(shown, sizeof shown, name);
	if (near)
		return err_set(ERR_USAGE, "unknown option '--%s', did you mean '--%s'?", shown,
			       near);
	return err_set(ERR_USAGE, "unknown option '--%s', see -h", shown);
}

/* The option called by this name or an unambiguous beginning of it; NULL and *rc otherwise. */
static const struct opt *find_long(const struct parse *p, const char *name, int *rc)
{
	const struct opt *found = NULL;
	size_t n = strlen(name);

	for (const struct opt *o = p->prog->table; !at_end(o); o++) {
		if (!o->name || strncmp(o->name, name, n) != 0)
			continue;
		if (o->name[n] == '\0')
			return o;
		if (found) {
			*rc = err_set(ERR_USAGE, "option '--%s' may be --%s or --%s", name,
				      found->name, o->name);
			return NULL;
		}
		found = o;
	}
	if (!found)
		*rc = unknown_long(p, name);
	return found;
}

static int parse_long(struct parse *p, const char *word)
{
	char name[80];
	const char *equals = strchr(word, '=');
	const struct opt *o;
	int rc = 0;

	snprintf(name, sizeof name, "%.*s", (int)(equals ? equals - word : 79), word);
	o = find_long(p, name, &rc);
	return o ? take(p, o, equals ? equals + 1 : NULL) : rc;
}

static int parse_cluster(struct parse *p, const char *letters)
{
	for (; *letters; letters++) {
		const struct opt *o = p->prog->table;
		char shown[8], letter[2] = { *letters, '\0' };
		int rc;

		while (!at_end(o) && o->letter != *letters)
			o++;
		say_escape(shown, sizeof shown, letter);
		if (at_end(o) && *letters == 'h')
			return print_help(p->prog);
		if (at_end(o))
			return err_set(ERR_USAGE, "unknown option '-%s', see -h", shown);
		if (o->type != OPT_FLAG)
			return take(p, o, letters[1] ? letters + 1 : NULL);
		rc = take(p, o, NULL);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int parse_option(struct parse *p, const char *word)
{
	if (strcmp(word, "--help") == 0)
		return print_help(p->prog);
	if (strcmp(word, "--version") == 0)
		return print_version(p->prog);
	return word[1] == '-' ? parse_long(p, word + 2) : parse_cluster(p, word + 1);
}

int opt_parse(const struct opt_prog *prog, int argc, char **argv, char ***words, int *n)
{
	struct parse p = { .prog = prog, .argc = argc, .at = 1, .argv = argv };
	int rc;

	*n = 0;
	*words = argc > 0 ? argv + 1 : argv;
	while (p.at < argc) {
		char *word = argv[p.at++];

		if (strcmp(word, "--") == 0)
			break;
		if (word[0] != '-' || word[1] == '\0') {
			(*words)[(*n)++] = word;
			continue;
		}
		rc = parse_option(&p, word);
		if (rc != 0)
			return rc;
	}
	while (p.at < argc)
		(*words)[(*n)++] = argv[p.at++];
	return 0;
}
