#include "base/say.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/utf8.h"

#define TERMINAL_EVERY 0.2 /* seconds between progress lines */
#define LOG_EVERY 5.0
#define ERASE_LINE "\r\033[K"

void say_init(struct say *s, const char *program, bool quiet, bool verbose)
{
	*s = (struct say){ .program = program, .quiet = quiet, .verbose = verbose };
	s->terminal = isatty(STDERR_FILENO) == 1;
	/* A terminal sees the first line at once, a log only when there has been time for one. */
	s->shown = clock_seconds() - (s->terminal ? TERMINAL_EVERY : 0);
}

/* One write(2), so that lines of several processes do not mix. What it cannot say is lost. */
static void put(const char *before, const char *program, const char *text, const char *after)
{
	char line[64 + 4 * ERR_TEXT];
	size_t n;

	snprintf(line, sizeof line, "%s%s: %s%s", before, program, text, after);
	n = strlen(line);
	if (write(STDERR_FILENO, line, n) < 0)
		return;
}

static ERR_PRINTF(2, 0) void put_line(struct say *s, const char *fmt, va_list ap)
{
	char text[ERR_TEXT], shown[3 * ERR_TEXT];

	vsnprintf(text, sizeof text, fmt, ap);
	say_escape(shown, sizeof shown, text);
	put(s->open ? ERASE_LINE : "", s->program, shown, "\n");
	s->open = false;
}

void say_warn(struct say *s, const char *fmt, ...)
{
	va_list ap;

	if (!s || s->quiet)
		return;
	va_start(ap, fmt);
	put_line(s, fmt, ap);
	va_end(ap);
}

void say_note(struct say *s, const char *fmt, ...)
{
	va_list ap;

	if (!s || s->quiet || !s->verbose)
		return;
	va_start(ap, fmt);
	put_line(s, fmt, ap);
	va_end(ap);
}

bool say_due(struct say *s)
{
	if (!s || s->quiet || !(s->terminal || s->verbose))
		return false;
	return clock_seconds() - s->shown >= (s->terminal ? TERMINAL_EVERY : LOG_EVERY);
}

void say_progress(struct say *s, const char *fmt, ...)
{
	char text[ERR_TEXT], shown[3 * ERR_TEXT];
	va_list ap;

	if (!s || s->quiet || !(s->terminal || s->verbose))
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	say_escape(shown, sizeof shown, text);
	put(s->terminal ? ERASE_LINE : "", s->program, shown, s->terminal ? "" : "\n");
	s->open = s->terminal;
	s->shown = clock_seconds();
}

void say_progress_end(struct say *s)
{
	if (!s || !s->open)
		return;
	s->open = false;
	if (write(STDERR_FILENO, "\n", 1) < 0)
		return;
}

int say_error(struct say *s, int code)
{
	char shown[3 * ERR_TEXT];

	if (s && code < 0) {
		say_escape(shown, sizeof shown, err_text());
		put(s->open ? ERASE_LINE : "", s->program, shown, "\n");
		s->open = false;
	}
	return err_status(code);
}

/* Characters that move the cursor or reorder what a person reads. */
static bool harmless(uint32_t c)
{
	return !(c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x200b && c <= 0x200f) ||
		 (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0xfeff);
}

void say_escape(char *out, size_t cap, const char *s)
{
	size_t used = 0;

	while (cap && *s) {
		char piece[8];
		uint32_t point = 0;
		size_t take = utf8_decode(s, &point), n;

		if (take && harmless(point)) {
			memcpy(piece, s, take);
			n = take;
		} else if (*s == '\n' || *s == '\t' || *s == '\r') {
			n = (size_t)snprintf(piece, sizeof piece, "\\%c",
					     *s == '\n' ? 'n' : *s == '\t' ? 't' : 'r');
			take = 1;
		} else {
			n = (size_t)snprintf(piece, sizeof piece, "\\x%02x", (unsigned char)*s);
			take = 1;
		}
		if (used + n >= cap)
			break;
		memcpy(out + used, piece, n);
		used += n;
		s += take;
	}
	if (cap)
		out[used] = '\0';
}
