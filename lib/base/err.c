#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* One slot a thread: a sentence never crosses threads but by err_save and err_restore. */
static _Thread_local char sentence[ERR_TEXT];

int err_set(enum err code, const char *fmt, ...)
{
	char text[ERR_TEXT]; /* arguments may point into the slot itself */
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	memcpy(sentence, text, sizeof text);
	return code;
}

int err_sys(const char *fmt, ...)
{
	int e = errno;
	char text[ERR_TEXT], reason[128];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	return err_set(e == ENOMEM ? ERR_NOMEM : ERR_IO, "%s: %s", text,
		       strerror_r(e, reason, sizeof reason));
}

int err_at(int code, const char *fmt, ...)
{
	char text[ERR_TEXT];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	err_set(code, "%s: %s", text, sentence);
	return code;
}

int err_nomem(void)
{
	return err_set(ERR_NOMEM, "out of memory");
}

const char *err_text(void)
{
	return sentence;
}

int err_status(int code)
{
	if (code >= 0)
		return 0;
	switch (code) {
	case ERR_USAGE:
		return 2;
	case ERR_AUTH:
		return 3;
	case ERR_AGAIN:
	case ERR_BUSY:
		return 4;
	default:
		return 1;
	}
}

void err_save(struct err_note *note, int code)
{
	note->code = code;
	memcpy(note->text, sentence, sizeof sentence);
}

int err_restore(const struct err_note *note)
{
	memcpy(sentence, note->text, sizeof sentence);
	return note->code;
}
