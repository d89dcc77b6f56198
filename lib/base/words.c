#include "base/words.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define PLAIN "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=./,:@%"

void words_release(struct words *w)
{
	for (size_t i = 0; i < w->n; i++)
		free(w->v[i]);
	free(w->v);
	*w = (struct words){ 0 };
}

int words_add(struct words *w, const char *word)
{
	char **v = realloc(w->v, (w->n + 2) * sizeof *v);

	if (!v)
		return err_nomem();
	w->v = v;
	v[w->n] = strdup(word);
	if (!v[w->n])
		return err_nomem();
	v[++w->n] = NULL;
	return 0;
}

/* The quotation at *at, which goes behind its end. */
static int quoted(struct buf *out, const char **at, const char *end)
{
	const char quote = *(*at)++;
	int rc = 0;

	for (; rc == 0 && *at < end && **at != quote; (*at)++) {
		if (quote == '"' && **at == '\\' && *at + 1 < end && ((*at)[1] == '"' || (*at)[1] == '\\'))
			(*at)++;
		rc = buf_add(out, *at, 1);
	}
	if (rc == 0 && *at == end)
		return err_set(ERR_DATA, "a quotation that does not end");
	(*at)++;
	return rc;
}

static bool blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* One word, which begins at *at. */
static int word(struct buf *out, const char **at, const char *end)
{
	int rc = 0;

	while (rc == 0 && *at < end && !blank(**at)) {
		if (**at == '\'' || **at == '"') {
			rc = quoted(out, at, end);
			continue;
		}
		if (**at == '\\' && *at + 1 < end)
			(*at)++;
		rc = buf_add(out, (*at)++, 1);
	}
	return rc;
}

int words_split(struct words *w, const char *line, size_t len)
{
	const char *at = line, *end = line + len;
	struct buf one = BUF_INIT;
	int rc = memchr(line, 0, len) ? err_set(ERR_DATA, "a NUL byte") : 0;

	while (rc == 0) {
		while (at < end && blank(*at))
			at++;
		if (at == end || *at == '#')
			break;
		buf_clear(&one);
		rc = word(&one, &at, end);
		if (rc == 0)
			rc = words_add(w, one.data ? one.data : "");
	}
	buf_release(&one);
	if (rc < 0)
		words_release(w);
	return rc;
}

int words_quote(struct buf *out, const char *text)
{
	int rc;

	if (*text && text[strspn(text, PLAIN)] == '\0')
		return buf_str(out, text);
	rc = buf_str(out, "'");
	for (; rc == 0 && *text; text++)
		rc = *text == '\'' ? buf_str(out, "'\\''") : buf_add(out, text, 1);
	return rc < 0 ? rc : buf_str(out, "'");
}

int words_join(struct buf *out, const char *const *words)
{
	int rc = 0;

	for (; rc == 0 && *words; words++)
		if ((rc = buf_str(out, " ")) == 0)
			rc = words_quote(out, *words);
	return rc;
}
