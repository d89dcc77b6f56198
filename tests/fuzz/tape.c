/*
 * Lines of any kind, each with the hash that it should have, are a tape or break it; what is read comes
 * back when it is written again. Lines that begin with '!' keep the hash that they bring.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/fd.h"
#include "round/tape_line.h"

#define RUN "0123456789abcdef0123456789abcdef"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool good)
{
	if (!good)
		abort();
}

/* The text of a tape from that of its lines. */
static void seal(struct buf *out, const char *text, size_t n)
{
	digest last;
	char hex[TAPE_HASH + 1];

	tape_start(&last, RUN);
	while (n) {
		const char *end = memchr(text, '\n', n);
		size_t length = end ? (size_t)(end - text) : n;
		size_t raw = length && *text == '!';

		must(buf_add(out, text + raw, length - raw) == 0);
		if (!raw) {
			tape_chain(&last, &last, text, length);
			sig_hex(hex, last.b, TAPE_HASH / 2);
			must(buf_fmt(out, " %s", hex) == 0);
		}
		if (end)
			must(buf_str(out, "\n") == 0);
		text += end ? length + 1 : length;
		n -= end ? length + 1 : length;
	}
}

static void check_escapes(const struct tape_line *l)
{
	struct buf text = BUF_INIT;

	for (size_t i = 0; i < l->fields; i++) {
		buf_clear(&text);
		must(tape_escape(&text, l->field[i].value) == 0);
		must(!strpbrk(text.data ? text.data : "", " \n\t"));
		must(tape_text(l, l->field[i].key) == l->field[i].value);
	}
	must(tape_u64(l, "round") != 1 || tape_f64(l, "round") == 1);
	buf_release(&text);
}

/* nuls: lines may stand behind what reads as torn. */
static void read_tape(bool nuls)
{
	struct tape_reader *r;
	const struct tape_line *l;
	struct tape *t;
	uint64_t lines = 0;
	digest last;
	bool sound;
	int rc = tape_read_open(&r, RUN, 1);

	if (rc < 0)
		return;
	for (; (rc = tape_read(r, &l)) > 0; lines++) {
		must(l->number == lines + 1);
		check_escapes(l);
	}
	must(tape_read_number(r) == lines);
	tape_read_hash(r, &last);
	sound = rc == 0;
	tape_read_close(r);
	/* what has been read to its end can be gone on with */
	if (sound && lines && tape_open(&t, RUN, 1, lines, &last) == 0) {
		tape_begin(t, 1, "call");
		must(tape_end(t, false) == 0);
		tape_close(t);
		must(tape_read_open(&r, RUN, 1) == 0);
		for (uint64_t i = 0; i < lines; i++)
			must(tape_read(r, &l) == 1);
		must(tape_read(r, &l) == 1 && l->number == lines + 1 && tape_read(r, &l) == 0);
		tape_read_close(r);
	} else
		must(!sound || !lines || nuls);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	char home[] = "/tmp/fuzz-tape.XXXXXX", *back = realpath(".", NULL);
	struct buf text = BUF_INIT;
	int fd;

	must(back && mkdtemp(home) && chdir(home) == 0 && mkdir("syncer", 0777) == 0);
	seal(&text, (const char *)data, n);
	fd = open("syncer/tape.1", O_WRONLY | O_CREAT, 0644);
	must(fd >= 0 && fd_write(fd, text.data, text.len) == 0);
	close(fd);
	read_tape(memchr(text.data ? text.data : "", '\0', text.len));
	must(unlink("syncer/tape.1") == 0 && rmdir("syncer") == 0);
	must(chdir(back) == 0 && rmdir(home) == 0);
	free(back);
	buf_release(&text);
	return 0;
}
