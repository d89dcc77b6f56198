#include "round/transcript.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/say.h"
#include "io/fd.h"

#define LINE 4096 /* longest piece held back */

void transcript_init(struct transcript *t, int fd, bool numbers, bool terminal)
{
	*t = (struct transcript){ .fd = fd, .numbers = numbers, .terminal = terminal };
}

void transcript_release(struct transcript *t)
{
	buf_release(&t->line);
}

/* The line is a string for say_escape: transcript_add has taken care of NUL. */
static int flush_escaped(struct transcript *t)
{
	char shown[4 * LINE + 8];
	bool ended = t->line.len && t->line.data[t->line.len - 1] == '\n';
	size_t n;

	if (ended)
		t->line.data[--t->line.len] = '\0';
	say_escape(shown, sizeof shown - 1, t->line.len ? t->line.data : "");
	n = strlen(shown);
	if (ended)
		shown[n++] = '\n';
	buf_clear(&t->line);
	return fd_write(t->fd, shown, n);
}

static int flush(struct transcript *t)
{
	int rc;

	if (t->line.len == 0)
		return 0;
	if (t->terminal && !t->numbers)
		return flush_escaped(t);
	rc = fd_write(t->fd, t->line.data, t->line.len);
	buf_clear(&t->line);
	return rc;
}

static int add_byte(struct transcript *t, uint8_t byte)
{
	if (byte == 0 && t->terminal)
		return buf_str(&t->line, "\\x00");
	return buf_add(&t->line, &byte, 1);
}

int transcript_add(struct transcript *t, uint32_t id)
{
	int rc;

	if (t->numbers)
		rc = buf_fmt(&t->line, "%s%" PRIu32, t->count ? " " : "", id);
	else
		rc = add_byte(t, (uint8_t)id);
	t->count++;
	if (rc < 0)
		return rc;
	return t->line.len >= LINE - 16 || (!t->numbers && id == '\n') ? flush(t) : 0;
}

int transcript_end(struct transcript *t)
{
	int rc = 0;

	if (t->numbers || (t->terminal && t->line.len))
		rc = buf_str(&t->line, "\n");
	return rc < 0 ? rc : flush(t);
}

/* ---- prompts ---- */

static int take_number(uint32_t *id, const char *word, size_t n, uint32_t vocab)
{
	char text[24];
	uint64_t x;

	if (n >= sizeof text)
		return err_set(ERR_USAGE, "prompt: '%.*s...' is not an id below %" PRIu32, 20, word,
			vocab);
	memcpy(text, word, n);
	text[n] = '\0';
	if (num_u64(text, &x) < 0 || x >= vocab)
		return err_set(ERR_USAGE, "prompt: '%s' is not an id below %" PRIu32, text, vocab);
	*id = (uint32_t)x;
	return 0;
}

static int take_numbers(uint32_t *ids, size_t *n, const char *text, uint32_t vocab)
{
	static const char blanks[] = " \t\n";
	size_t length;
	int rc;

	for (text += strspn(text, blanks); *text; text += strspn(text, blanks)) {
		length = strcspn(text, blanks);
		if ((rc = take_number(&ids[*n], text, length, vocab)) < 0)
			return rc;
		++*n;
		text += length;
	}
	return 0;
}

static int take_bytes(uint32_t *ids, size_t *n, const char *text, uint32_t vocab)
{
	for (; *text; text++) {
		ids[*n] = (uint8_t)*text;
		if (ids[*n] >= vocab)
			return err_set(ERR_USAGE,
				"prompt: byte %" PRIu32 " is not in the vocabulary of %" PRIu32,
				ids[*n], vocab);
		++*n;
	}
	return 0;
}

int transcript_prompt(uint32_t **ids, size_t *n, const char *text, bool numbers, uint32_t vocab, size_t more)
{
	size_t room = strlen(text) + more;
	int rc;

	*n = 0;
	*ids = calloc(room ? room : 1, sizeof **ids);
	if (!*ids)
		return err_nomem();
	rc = numbers ? take_numbers(*ids, n, text, vocab) : take_bytes(*ids, n, text, vocab);
	if (rc == 0 && *n == 0)
		rc = err_set(ERR_USAGE, "prompt: nothing to go on from");
	if (rc < 0) {
		free(*ids);
		*ids = NULL;
	}
	return rc;
}
