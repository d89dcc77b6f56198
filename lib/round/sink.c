#include "round/sink.h"

#include <fcntl.h>
#include <unistd.h>

#include "io/fd.h"

void sink_init(struct sink *s, int fd, const char *name)
{
	off_t at = lseek(fd, 0, SEEK_CUR);
	uint64_t size;

	*s = (struct sink){ .fd = fd, .name = name };
	if (at < 0 || !fd_regular(fd, &size))
		return;
	if (fcntl(fd, F_GETFL) & O_APPEND)
		at = (off_t)size;
	s->start = (uint64_t)at;
	s->seekable = s->start >= size; /* else others' bytes lie behind */
}

int sink_cut(struct sink *s)
{
	frame_writer_free(s->writer);
	s->writer = NULL;
	if (!s->seekable)
		return 0;
	if (ftruncate(s->fd, (off_t)s->start) < 0 || lseek(s->fd, (off_t)s->start, SEEK_SET) < 0)
		return err_sys("%s", s->name);
	return 0;
}

static int named(const struct sink *s, int rc)
{
	return rc < 0 ? err_at(rc, "%s", s->name) : rc;
}

int sink_begin(struct sink *s, const struct header *h, const struct key *key)
{
	int rc = s->writer ? sink_cut(s) : 0;

	return rc < 0 ? rc : named(s, frame_create(&s->writer, s->fd, h, &key->secret, NULL));
}

int sink_write(struct sink *s, const float *value, size_t n)
{
	return named(s, frame_write(s->writer, value, NULL, n));
}

int sink_finish(struct sink *s, digest *id)
{
	return named(s, frame_finish(s->writer, id));
}

void sink_release(struct sink *s)
{
	frame_writer_free(s->writer);
	s->writer = NULL;
}
