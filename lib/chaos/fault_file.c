#include "chaos/fault_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/num.h"
#include "base/say.h"
#include "io/fd.h"

enum { AT, KIND, PROCESS, LASTS, VALUE, CLASS, WHAT, COLUMNS };
static const char *const column[COLUMNS] = { "at", "fault", "process", "lasts", "value", "file", "what" };

#define TEXT 512       /* longest field but `what` */
#define OFF_MOST 1e12  /* seconds that a clock may be off */

int fault_file_head(struct buf *out)
{
	int rc = 0;

	for (int i = 0; rc == 0 && i < COLUMNS; i++)
		rc = buf_fmt(out, "%s%c", column[i], i + 1 < COLUMNS ? '\t' : '\n');
	return rc;
}

static bool has_value(enum fault_kind k)
{
	return k == FAULT_SLOW || k == FAULT_CLOCK || k == FAULT_DELAY || k == FAULT_TRUNCATE || k == FAULT_FLIP;
}

int fault_file_line(struct buf *out, const struct fault *f, const struct fault_names *names, const char *what)
{
	char at[32], lasts[32], value[32] = "-", shown[TEXT];

	num_f64_text(at, f->at);
	num_f64_text(lasts, f->lasts);
	if (has_value(f->kind))
		num_f64_text(value, f->value);
	say_escape(shown, sizeof shown, what);
	return buf_fmt(out, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", at, fault_kind_name(f->kind), names->name[f->who], lasts,
		       value, fault_of_file(f->kind) ? fault_class_name(f->file) : "-", shown);
}

int fault_file_plan(struct buf *out, const struct fault *v, size_t n, const struct fault_conf *conf, double most,
		    const struct fault_names *names)
{
	struct fault_plan plan;
	struct fault f = { 0 };
	int rc = fault_file_head(out);

	if (rc == 0 && !v)
		rc = fault_plan_begin(&plan, conf);
	for (size_t i = 0; rc == 0 && (!v || i < n); i++) {
		if (v)
			f = v[i];
		else
			fault_plan_next(&plan, &f);
		if (most > 0 && f.at >= most)
			break;
		rc = fault_file_line(out, &f, names, "");
	}
	return rc;
}

/* ---- reading ---- */

static int parse_process(const char *text, const struct fault_names *names, unsigned *out)
{
	const char *near, **list;

	for (unsigned i = 0; i < names->n; i++)
		if (strcmp(names->name[i], text) == 0) {
			*out = i;
			return 0;
		}
	list = calloc(names->n + 1, sizeof *list);
	if (!list)
		return err_nomem();
	memcpy(list, names->name, names->n * sizeof *list);
	near = conf_nearest(text, list);
	err_set(ERR_USAGE, "there is no process '%.64s'%s%s%s", text, near ? "; did you mean '" : "", near ? near : "",
		near ? "'?" : "");
	free(list);
	return ERR_USAGE;
}

static int parse_number(const char *text, int which, double least, double most, double *out)
{
	if (num_f64(text, out) < 0 || !(*out >= least && *out <= most))
		return err_set(ERR_USAGE, "%s is '%.40s': give a number from %g to %g", column[which], text, least,
			       most);
	return 0;
}

static int parse_value(const char *text, struct fault *f)
{
	if (!has_value(f->kind))
		return strcmp(text, "-") == 0 || strcmp(text, "0") == 0 ? 0 :
			err_set(ERR_USAGE, "a fault '%s' has no value: give -", fault_kind_name(f->kind));
	if (f->kind == FAULT_CLOCK)
		return parse_number(text, VALUE, -OFF_MOST, OFF_MOST, &f->value);
	if (f->kind == FAULT_DELAY)
		return parse_number(text, VALUE, 0, FAULT_TIME, &f->value);
	return parse_number(text, VALUE, 0, 1, &f->value);
}

/* The fields of a line, cut up in place. */
static int split(char *line, char *field[COLUMNS])
{
	int n = 0;

	for (char *at = line; n < COLUMNS && at; n++)
		field[n] = n == WHAT ? at : strsep(&at, "\t");
	if (n < WHAT)
		return err_set(ERR_USAGE, "%d columns, not the %d from '%s' to '%s', tabs between", n, WHAT, column[0],
			       column[CLASS]);
	return n;
}

static int parse_head(char *line)
{
	char *field[COLUMNS];
	int n = split(line, field);

	for (int i = 0; i < n; i++)
		if (strcmp(field[i], column[i]) != 0)
			return err_set(ERR_USAGE, "column %d is '%.40s', not '%s'", i + 1, field[i], column[i]);
	return n < 0 ? n : 0;
}

static int parse_line(struct fault *f, char *line, const struct fault_names *names)
{
	char *field[COLUMNS];
	int rc = split(line, field);

	*f = (struct fault){ 0 };
	if (rc < 0 || (rc = parse_number(field[AT], AT, 0, FAULT_TIME, &f->at)) < 0 ||
	    (rc = fault_kind_parse(field[KIND], &f->kind)) < 0 ||
	    (rc = parse_process(field[PROCESS], names, &f->who)) < 0 ||
	    (rc = parse_number(field[LASTS], LASTS, 0, FAULT_TIME, &f->lasts)) < 0 ||
	    (rc = parse_value(field[VALUE], f)) < 0)
		return rc;
	if (fault_of_file(f->kind))
		return fault_class_parse(field[CLASS], &f->file);
	return strcmp(field[CLASS], "-") == 0 ? 0 :
		err_set(ERR_USAGE, "a fault '%s' hits no file: give -", fault_kind_name(f->kind));
}

static int append(struct fault **v, size_t *n, const struct fault *f)
{
	struct fault *more;

	if ((*n & (*n - 1)) == 0) {
		more = realloc(*v, (*n ? 2 * *n : 1) * sizeof *more);
		if (!more)
			return err_nomem();
		*v = more;
	}
	(*v)[(*n)++] = *f;
	return 0;
}

static void merge(struct fault *to, const struct fault *a, const struct fault *b, size_t na, size_t nb)
{
	while (na || nb)
		if (na && (!nb || a->at <= b->at))
			*to++ = *a++, na--;
		else
			*to++ = *b++, nb--;
}

/* By time, and ties stay as they are, which qsort does not promise. */
static int sort(struct fault *v, size_t n)
{
	struct fault *other = malloc((n + 1) * sizeof *other);

	if (!other)
		return err_nomem();
	for (size_t width = 1; width < n; width *= 2) {
		for (size_t i = 0; i < n; i += 2 * width) {
			size_t na = n - i < width ? n - i : width;
			size_t nb = n - i - na < width ? n - i - na : width;

			merge(other + i, v + i, v + i + na, na, nb);
		}
		memcpy(v, other, n * sizeof *v);
	}
	free(other);
	return 0;
}

int fault_file_parse(struct fault **v, size_t *n, const char *text, size_t len, const struct fault_names *names)
{
	char *copy = strndup(text, len), *at = copy, *line;
	bool headed = false;
	int rc = !copy ? err_nomem() : memchr(text, 0, len) ? err_set(ERR_USAGE, "a NUL byte: this is no plan") : 0;
	int number = 0;

	*v = NULL;
	*n = 0;
	while (rc == 0 && (line = strsep(&at, "\n"))) {
		size_t end = strlen(line);
		struct fault f;

		number++;
		if (end && line[end - 1] == '\r')
			line[end - 1] = '\0';
		if (!*line || *line == '#')
			continue;
		rc = headed ? parse_line(&f, line, names) : parse_head(line);
		if (rc == 0 && headed)
			rc = append(v, n, &f);
		headed = true;
		if (rc < 0)
			err_at(rc, "line %d", number);
	}
	if (rc == 0 && !headed)
		rc = err_set(ERR_USAGE, "no line names the columns: this is no plan");
	free(copy);
	if (rc == 0 && !*v && !(*v = calloc(1, sizeof **v))) /* a plan of no faults is one, too */
		rc = err_nomem();
	if (rc == 0)
		rc = sort(*v, *n);
	if (rc < 0) {
		free(*v);
		*v = NULL;
		*n = 0;
	}
	return rc;
}

int fault_file_read(struct fault **v, size_t *n, const char *path, const struct fault_names *names)
{
	struct buf text = BUF_INIT;
	int rc = fd_slurp_path(path, FAULT_FILE_BYTES, &text);

	*v = NULL;
	*n = 0;
	if (rc == 0 && (rc = fault_file_parse(v, n, text.data ? text.data : "", text.len, names)) < 0)
		err_at(rc, "%s", fd_name(path));
	buf_release(&text);
	return rc;
}
