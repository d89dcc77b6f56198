#include "io/term.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/buf.h"
#include "io/fd.h"

#define UP_AND_CLEAR "\r\033[%dA\033[J"

void term_size(int fd, int *columns, int *rows)
{
	struct winsize w;

	*columns = 80;
	*rows = 24;
	if (ioctl(fd, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 && w.ws_row > 0) {
		*columns = w.ws_col;
		*rows = w.ws_row;
	}
}

/* In the background a terminal is not ours to set or to read: that would stop us. */
static bool foreground(const struct term *t)
{
	return tcgetpgrp(t->in) == getpgrp();
}

/* Again and again: a shell that had us stopped for a while may have set it otherwise. */
static void set_keys(const struct term *t)
{
	struct termios now = t->before;

	now.c_lflag &= (tcflag_t) ~(ICANON | ECHO);
	now.c_cc[VMIN] = 1;
	now.c_cc[VTIME] = 0;
	if (foreground(t) && tcsetattr(t->in, TCSANOW, &now) < 0)
		return;
}

void term_begin(struct term *t, int in, int out)
{
	*t = (struct term){ .in = in, .out = out };
	t->keys = isatty(in) == 1 && tcgetattr(in, &t->before) == 0;
	if (t->keys)
		set_keys(t);
}

int term_draw(struct term *t, const char *text, size_t n)
{
	struct buf out = BUF_INIT;
	int rc = t->lines ? buf_fmt(&out, UP_AND_CLEAR, t->lines) : 0;

	if (rc == 0)
		rc = buf_add(&out, text, n);
	if (rc == 0)
		rc = fd_write(t->out, out.data, out.len);
	buf_release(&out);
	t->lines = 0;
	for (size_t i = 0; i < n; i++)
		t->lines += text[i] == '\n';
	return rc;
}

int term_key(struct term *t, double seconds)
{
	struct pollfd p = { .fd = t->in, .events = POLLIN };
	bool listen = t->keys && foreground(t);
	unsigned char key = 0;

	if (listen)
		set_keys(t);
	if (poll(&p, listen ? 1 : 0, (int)(seconds * 1000)) <= 0 || !foreground(t))
		return 0;
	if (read(t->in, &key, 1) <= 0)
		t->keys = false; /* it was closed */
	return key;
}

void term_end(struct term *t)
{
	if (t->keys && foreground(t) && tcsetattr(t->in, TCSANOW, &t->before) < 0)
		return;
	t->keys = false;
}
