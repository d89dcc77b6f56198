#include "form/shard.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "form/ids.h"
#include "form/meta.h"
#include "io/fd.h"

#define TENSOR "tokens"

struct shard {
	char *path;
	int fd;
	struct frame_reader *reader;
	struct frame_scratch *scratch;
	struct frame_slice slice; /* the one read last; n is 0 before */
	struct shard_info info;
	enum dtype dtype;
	digest id;
};

struct shard_writer {
	struct frame_writer *frames;
	uint32_t vocab;
	enum dtype dtype;
	uint64_t written;
	uint8_t packed[FRAME_BYTES_INT];
};

/* The smallest type that holds ids below vocab. */
static enum dtype dtype_for(uint32_t vocab)
{
	return vocab <= 1u << 8 ? DTYPE_U8 : vocab <= 1u << 16 ? DTYPE_U16 : DTYPE_U32;
}

static struct tensor tokens_tensor(const struct shard_info *info)
{
	return (struct tensor){ .name = TENSOR, .dtype = dtype_for(info->vocab),
				.enc = ENC_PLAIN, .rank = 1, .dim = { info->tokens } };
}

/* ---- the header ---- */

static int read_part(struct shard_info *info, const struct conf *keys)
{
	const char *part = conf_get(keys, "part");
	int rc;

	if ((rc = conf_u64(keys, "parts", 1, UINT64_MAX, &info->parts)) < 0)
		return rc;
	info->valid = part && strcmp(part, "valid") == 0;
	if (info->valid || (!part && info->parts == 0))
		return 0;
	if (!part || info->parts == 0)
		return err_set(ERR_DATA, "'part' and 'parts' go together");
	return conf_u64(keys, "part", 0, info->parts - 1, &info->part);
}

static int read_vocabulary(struct shard_info *info, const struct conf *keys)
{
	const char *hex = conf_get(keys, "vocabulary");
	int rc = hex ? vocab_digest_check("key 'vocabulary'", hex) : 0;

	if (hex && rc == 0)
		memcpy(info->vocabulary, hex, sizeof info->vocabulary);
	return rc;
}

static int read_info(struct shard_info *info, const struct header *h)
{
	const struct tensors *ts = &h->tensors;
	struct meta meta;
	uint64_t vocab = 0;
	int rc;

	*info = (struct shard_info){ 0 };
	if ((rc = meta_read(&meta, h)) < 0 || (rc = meta_want(&meta, KIND_SHARD)) < 0 ||
	    (rc = conf_u64(&h->keys, "vocab", 1, UINT32_MAX, &vocab)) < 0 ||
	    (rc = conf_u64(&h->keys, "bytes", 1, UINT64_MAX, &info->bytes)) < 0 ||
	    (rc = conf_u64(&h->keys, "block", 1, UINT64_MAX, &info->block)) < 0 ||
	    (rc = read_part(info, &h->keys)) < 0 || (rc = read_vocabulary(info, &h->keys)) < 0)
		return rc;
	info->vocab = (uint32_t)vocab;
	if (vocab == 0)
		return err_set(ERR_DATA, "the header does not give the vocabulary");
	if (ts->n != 1 || strcmp(ts->v[0].name, TENSOR) != 0 || ts->v[0].rank != 1 ||
	    ts->v[0].dtype != dtype_for(info->vocab))
		return err_set(ERR_DATA, "the tensor table is not that of a shard");
	info->tokens = ts->v[0].count;
	return 0;
}

static int write_info(struct header *h, const struct shard_info *info)
{
	struct meta meta = { .kind = KIND_SHARD };
	struct tensor tokens = tokens_tensor(info);
	int rc = meta_write(&meta, h);

	if (rc == 0)
		rc = conf_set_u64(&h->keys, "vocab", info->vocab);
	if (rc == 0 && info->vocabulary[0])
		rc = conf_set(&h->keys, "vocabulary", info->vocabulary);
	if (rc == 0 && info->bytes)
		rc = conf_set_u64(&h->keys, "bytes", info->bytes);
	if (rc == 0 && info->block)
		rc = conf_set_u64(&h->keys, "block", info->block);
	if (rc == 0 && info->valid)
		rc = conf_set(&h->keys, "part", "valid");
	else if (rc == 0 && info->parts)
		rc = conf_set_u64(&h->keys, "part", info->part);
	if (rc == 0 && info->parts)
		rc = conf_set_u64(&h->keys, "parts", info->parts);
	return rc < 0 ? rc : tensors_push(&h->tensors, &tokens);
}

/* ---- reading ---- */

/* Text where a shard belongs is the likeliest mistake. */
static int say_make(int rc, int fd)
{
	struct err_note note;

	err_save(&note, rc);
	if (rc == ERR_DATA && frame_begins(fd, 0) == 0)
		return err_set(ERR_DATA, "%s: dl-data makes shards", note.text);
	return err_restore(&note);
}

int shard_open(struct shard **out, const char *path, const struct trust *trust)
{
	struct shard *s = calloc(1, sizeof *s);
	int rc;

	if (!s)
		return err_nomem();
	s->fd = -1;
	s->path = strdup(fd_name(path));
	rc = s->path ? fd_open_random(path, &s->fd) : err_nomem();
	if (rc == 0 && (rc = frame_open(&s->reader, s->fd, s->path, trust, NULL)) < 0)
		rc = say_make(rc, s->fd);
	if (rc == 0 && (rc = read_info(&s->info, frame_header(s->reader))) < 0)
		rc = err_at(rc, "%s", s->path);
	if (rc == 0)
		rc = frame_seekable(s->reader);
	if (rc == 0)
		rc = frame_id(s->reader, &s->id);
	if (rc == 0)
		rc = frame_scratch_new(&s->scratch);
	if (rc < 0) {
		shard_close(s);
		return rc;
	}
	s->dtype = dtype_for(s->info.vocab);
	*out = s;
	return 0;
}

void shard_close(struct shard *s)
{
	if (!s)
		return;
	frame_scratch_free(s->scratch);
	frame_reader_free(s->reader);
	if (s->fd >= 0)
		close(s->fd);
	free(s->path);
	free(s);
}

const struct shard_info *shard_info(const struct shard *s)
{
	return &s->info;
}

int shard_want_vocab(const struct shard *s, uint32_t vocab, const char *vocabulary)
{
	return vocab_fits(s->info.vocabulary, s->info.vocab, vocabulary, vocab);
}

const digest *shard_id(const struct shard *s)
{
	return &s->id;
}

const char *shard_name(const struct shard *s)
{
	return s->path;
}

/* Ids of the current slice that start at position `at`, n at most; how many. */
static int take_slice(struct shard *s, uint32_t *out, uint64_t at, size_t n)
{
	const struct frame_slice *slice = &s->slice;
	size_t skip = (size_t)(at - slice->first), left = slice->n - skip;
	size_t size = dtype_size(s->dtype);
	int rc;

	if (n > left)
		n = left;
	rc = ids_unpack(out, (const uint8_t *)slice->elements + skip * size, size, n, s->info.vocab, at);
	return rc < 0 ? err_at(rc, "%s", s->path) : (int)n;
}

int shard_read(struct shard *s, uint32_t *out, uint64_t at, size_t n)
{
	if (at > s->info.tokens || n > s->info.tokens - at)
		return err_set(ERR_DATA, "%s: has %" PRIu64 " tokens, not %zu from %" PRIu64,
			       s->path, s->info.tokens, n, at);
	while (n) {
		int rc = 0;

		if (s->slice.n == 0 || at < s->slice.first || at - s->slice.first >= s->slice.n) {
			s->slice.n = 0;
			rc = frame_slice_with(s->reader, s->scratch, 0, at, &s->slice);
		}
		if (rc == 0)
			rc = take_slice(s, out, at, n);
		if (rc < 0)
			return rc;
		out += rc;
		at += (uint64_t)rc;
		n -= (size_t)rc;
	}
	return 0;
}

/* ---- writing ---- */

int shard_create(struct shard_writer **out, int fd, const struct shard_info *info, const struct sig_secret *key)
{
	struct header h = { 0 };
	struct shard_writer *w;
	int rc;

	if (info->tokens == 0 || info->vocab == 0)
		return err_set(ERR_DATA, "a shard without %s", info->vocab ? "tokens" : "vocabulary");
	w = calloc(1, sizeof *w);
	if (!w)
		return err_nomem();
	w->vocab = info->vocab;
	w->dtype = dtype_for(info->vocab);
	rc = write_info(&h, info);
	if (rc == 0)
		rc = frame_create(&w->frames, fd, &h, key, NULL);
	header_release(&h);
	if (rc < 0) {
		shard_writer_free(w);
		return rc;
	}
	*out = w;
	return 0;
}

static void pack(uint8_t *to, enum dtype dtype, size_t i, uint32_t id)
{
	if (dtype == DTYPE_U8)
		to[i] = (uint8_t)id;
	else if (dtype == DTYPE_U16)
		le16_put(to + 2 * i, (uint16_t)id);
	else
		le32_put(to + 4 * i, id);
}

int shard_write(struct shard_writer *w, const uint32_t *ids, size_t n)
{
	const size_t most = sizeof w->packed / dtype_size(w->dtype);

	while (n) {
		size_t portion = n < most ? n : most;
		int rc;

		for (size_t i = 0; i < portion; i++) {
			if (ids[i] >= w->vocab)
				return err_set(ERR_DATA, "token %" PRIu64 ": id %" PRIu32
					       " is not below the vocabulary of %" PRIu32,
					       w->written + i, ids[i], w->vocab);
			pack(w->packed, w->dtype, i, ids[i]);
		}
		rc = frame_write_int(w->frames, w->packed, portion);
		if (rc < 0)
			return rc;
		w->written += portion;
		ids += portion;
		n -= portion;
	}
	return 0;
}

int shard_finish(struct shard_writer *w, digest *id)
{
	return frame_finish(w->frames, id);
}

void shard_writer_free(struct shard_writer *w)
{
	if (!w)
		return;
	frame_writer_free(w->frames);
	free(w);
}
