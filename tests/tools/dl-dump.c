/*
 * dl-dump - prints header and all values of a sealed file, for tests: "key value" lines, then a line
 * "name value value ..." for each tensor. A value is the shortest text that reads back as the same float; of
 * a difference in two parts (f32r) it is their sum.
 */
#include <stdio.h>

#include "base/num.h"
#include "base/say.h"
#include "form/frame.h"
#include "io/fd.h"

static int print_values(struct frame_reader *r)
{
	const struct tensors *ts = &frame_header(r)->tensors;
	struct frame_slice s;
	char text[32];
	int rc;

	while ((rc = frame_next(r, &s)) > 0) {
		if (s.first == 0)
			printf("%s%s", s.tensor ? "\n" : "", ts->v[s.tensor].name);
		for (uint32_t i = 0; i < s.n && s.value; i++) {
			num_f32_text(text, s.value[i] + (s.rest ? s.rest[i] : 0));
			printf(" %s", text);
		}
	}
	putchar('\n');
	return rc;
}

int main(int argc, char **argv)
{
	const char *path = argc > 1 ? argv[1] : "-";
	struct frame_reader *r = NULL;
	struct buf text = BUF_INIT;
	struct say say;
	int fd, rc;

	say_init(&say, "dl-dump", false, false);
	if ((rc = fd_open_in(path, &fd)) == 0 && (rc = frame_open(&r, fd, path, NULL, NULL)) == 0 &&
		(rc = conf_format(&frame_header(r)->keys, &text)) == 0) {
		fputs(text.data, stdout);
		rc = print_values(r);
	}
	if (rc == 0)
		rc = fd_close_output();
	buf_release(&text);
	frame_reader_free(r);
	return rc < 0 ? say_error(&say, rc) : 0;
}
