#include "round/dataset.h"

#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "form/shard.h"
#include "form/split.h"
#include "io/dir.h"
#include "io/fd.h"
#include "io/place.h"
#include "io/proc.h"
#include "io/tool.h"

#define DIRECTORY "data"
#define WHOLE DIRECTORY "/corpus.tok"
#define STEM DIRECTORY "/corpus"
#define HOLDOUT "0.05"
#define HOLDOUT_EVERY 20
#define ORIGIN "log/corpus"
#define DEFAULT "the default one, the King James Bible"
#define BLOCK_MOST 8192
#define BLOCK_LEAST 64
#define BLOCKS 400      /* there should be so many to be dealt out */
#define PORTION 16384   /* tokens compared at a time */
#define BYTES 256       /* ids of text */

/* Verses without their places. */
static const char *const print_bible[] = { "bible", "-f", "gen1:1-rev22:21", NULL };
static const char *const strip_places[] = { "sed", "s/^[^ ]* //", NULL };

/* dl-data and the key to sign with. */
static void begin(struct tool_command *w, const char *key)
{
	*w = (struct tool_command){ .n = 0 };
	tool_add(w, "dl-data");
	tool_add_pair(w, "-k", key);
}

char *dataset_part(char to[DATASET_PATH], unsigned learners, unsigned learner)
{
	snprintf(to, DATASET_PATH, DIRECTORY "/%u.%u.tok", learners, learner);
	return to;
}

char *dataset_valid(char to[DATASET_PATH], unsigned learners)
{
	snprintf(to, DATASET_PATH, DIRECTORY "/%u.valid.tok", learners);
	return to;
}

static bool is_shard(const char *path)
{
	size_t n = strlen(path);

	return n > 4 && strcmp(path + n - 4, ".tok") == 0;
}

int dataset_check(const char *corpus)
{
	char *path;
	int fd, rc;

	if (!corpus) {
		rc = proc_find(&path, print_bible[0]);
		if (rc == ERR_IO)
			return err_set(ERR_USAGE, "no data: give --corpus FILE, or install the default corpus with "
				       "apt-get install bible-kjv");
		free(path);
		return rc;
	}
	if (strcmp(corpus, "-") == 0)
		return 0;
	rc = fd_open_in(corpus, &fd);
	if (rc == 0)
		close(fd);
	return rc;
}

/* ---- the corpus as one shard ---- */

static int pack_default(const char *key)
{
	struct tool_command data;
	const char *const *all[] = { print_bible, strip_places, data.v };

	begin(&data, key);
	tool_add_pair(&data, "-o", STEM);
	return tool_pipe(all, 3, -1, -1);
}

static int pack_text(const char *corpus, const char *key)
{
	struct tool_command data;
	int fd, rc = fd_open_in(corpus, &fd);

	if (rc < 0)
		return rc;
	begin(&data, key);
	tool_add_pair(&data, "-o", STEM);
	rc = tool_run(data.v, fd, -1);
	close(fd);
	return rc;
}

static bool is_bytes(const struct shard_info *info)
{
	return info->vocab <= BYTES && !info->vocabulary[0];
}

/* What a pipe from dl-data -d to another dl-data needs to keep ids ids. */
static void add_ids(struct tool_command *w, const struct shard_info *info)
{
	if (is_bytes(info))
		return;
	tool_add(w, "--ids");
	tool_add_count(w, "--vocab", info->vocab);
	tool_add_pair(w, "--tokenizer", info->vocabulary[0] ? info->vocabulary : NULL);
	tool_add_count(w, "--bytes", info->bytes);
}

static int shard_facts(struct shard_info *info, const char *path, const struct trust *trust)
{
	struct shard *s;
	int rc = shard_open(&s, path, trust);

	if (rc < 0)
		return rc;
	*info = *shard_info(s);
	shard_close(s);
	return 0;
}

static int pack_shard(const char *corpus, const char *key, const struct trust *trust)
{
	struct tool_command unpack, data;
	const char *const *all[] = { unpack.v, data.v };
	struct shard_info info;
	int rc = shard_facts(&info, corpus, trust);

	if (rc < 0)
		return rc;
	begin(&unpack, key);
	tool_add_pair(&unpack, "-d", corpus);
	begin(&data, key);
	add_ids(&data, &info);
	tool_add_pair(&data, "-o", STEM);
	return tool_pipe(all, 2, -1, -1);
}

/* Text is a token for each byte. */
static int check_text(const char *corpus, const struct model_conf *m)
{
	if (m->vocab == BYTES && !m->vocabulary[0])
		return 0;
	return err_set(ERR_USAGE, "%s: is text, a token for each byte, and the model has a vocabulary of %" PRIu32
		": give a shard of its ids (dl-data --ids, dl-sentencepiece(7)) as --corpus NAME.tok",
		corpus ? fd_name(corpus) : "the default corpus", m->vocab);
}

/* Ids that the model does not know are found before the run keeps them. */
static int check_ids(const char *corpus, const struct model_conf *m, const struct trust *trust)
{
	struct shard *s;
	int rc;

	if (!corpus || !is_shard(corpus))
		return check_text(corpus, m);
	if ((rc = shard_open(&s, corpus, trust)) < 0)
		return rc;
	rc = shard_want_vocab(s, m->vocab, m->vocabulary);
	shard_close(s);
	return rc < 0 ? err_at(ERR_USAGE, "--corpus %s", corpus) : 0;
}

static int pack(const char *corpus, const char *key, const struct trust *trust)
{
	if (!corpus)
		return pack_default(key);
	if (is_shard(corpus))
		return pack_shard(corpus, key, trust);
	return pack_text(corpus, key);
}

/* ---- is it the same one? ---- */

static int other(const char *corpus)
{
	return err_set(ERR_USAGE, "--corpus %s: the run has another one, in " WHOLE, fd_name(corpus));
}

static int compare_text(struct shard *s, const char *corpus)
{
	uint64_t left = shard_info(s)->tokens, at = 0;
	uint32_t id[PORTION];
	unsigned char byte[PORTION];
	int fd, rc = fd_open_in(corpus, &fd);

	if (rc < 0)
		return rc;
	if (shard_info(s)->vocab != BYTES || shard_info(s)->vocabulary[0])
		rc = other(corpus);
	while (rc == 0) {
		size_t n = left < PORTION ? (size_t)left : PORTION;
		ssize_t got = fd_read(fd, byte, n ? n : 1); /* at the end there must be nothing more */

		if (got != (ssize_t)n)
			rc = got < 0 ? (int)got : other(corpus);
		if (rc < 0 || n == 0)
			break;
		rc = shard_read(s, id, at, n);
		for (size_t i = 0; rc == 0 && i < n; i++)
			if (id[i] != byte[i])
				rc = other(corpus);
		at += n;
		left -= n;
	}
	close(fd);
	return rc;
}

/* Of the run's shard and of one that it may have been made from. */
static bool same_ids(const struct shard_info *ours, const struct shard_info *theirs)
{
	return ours->vocab == (is_bytes(theirs) ? BYTES : theirs->vocab) &&
		strcmp(ours->vocabulary, theirs->vocabulary) == 0;
}

static int compare_shard(struct shard *s, const char *corpus, const struct trust *trust)
{
	uint64_t left = shard_info(s)->tokens;
	uint32_t a[PORTION], b[PORTION];
	struct shard *t;
	int rc = shard_open(&t, corpus, trust);

	if (rc < 0)
		return rc;
	if (shard_info(t)->tokens != left || !same_ids(shard_info(s), shard_info(t)))
		rc = other(corpus);
	for (uint64_t at = 0, n; rc == 0 && left > 0; at += n, left -= n) {
		n = left < PORTION ? left : PORTION;
		rc = shard_read(s, a, at, (size_t)n);
		if (rc == 0)
			rc = shard_read(t, b, at, (size_t)n);
		if (rc == 0 && memcmp(a, b, (size_t)n * sizeof *a) != 0)
			rc = other(corpus);
	}
	shard_close(t);
	return rc;
}

static int compare(const char *corpus, const struct trust *trust)
{
	struct shard *s;
	int rc = shard_open(&s, WHOLE, trust);

	if (rc == 0)
		rc = is_shard(corpus) ? compare_shard(s, corpus, trust) : compare_text(s, corpus);
	shard_close(s);
	return rc;
}

/* ---- the split ---- */

static bool is_whole(const struct dataset *d, const char *path)
{
	struct shard_info info;
	int rc = access(path, F_OK) < 0 ? 1 : shard_facts(&info, path, d->trust);

	if (rc < 0)
		say_warn(d->say, "%s; dealt out again", err_text());
	return rc == 0;
}

/* Opened, parts tell of most damage: of all but that of single bytes, which whoever reads those finds. */
static bool is_split(const struct dataset *d)
{
	char path[DATASET_PATH];
	bool whole = is_whole(d, dataset_valid(path, d->learners));

	for (unsigned k = 0; whole && k < d->learners; k++)
		whole = is_whole(d, dataset_part(path, d->learners, k));
	return whole;
}

/* The same for every number of learners: so what is held out stays held out. */
static uint64_t block_of(uint64_t tokens)
{
	uint64_t block = BLOCK_MOST;

	while (block > BLOCK_LEAST && tokens / block < BLOCKS)
		block /= 2;
	return block;
}

static bool enough(const struct split *s, uint64_t context)
{
	if (split_check(s) < 0)
		return false;
	for (uint64_t k = 0; k < s->parts; k++)
		if (split_tokens(s, k) <= context)
			return false;
	return true;
}

/* dl-data's advice would be for one who can choose the blocks. */
static int check_enough(const struct dataset *d, uint64_t tokens)
{
	struct split s = { .tokens = tokens, .block = block_of(tokens), .parts = d->learners, .every = HOLDOUT_EVERY };

	while (s.parts && !enough(&s, d->context))
		s.parts--;
	if (s.parts == d->learners)
		return 0;
	if (s.parts == 0)
		return err_set(ERR_USAGE, "the corpus has %" PRIu64 " tokens, too few for samples of %" PRIu64
			" and what is held out: give more text (--corpus)", tokens, d->context);
	return err_set(ERR_USAGE, "the corpus has %" PRIu64 " tokens, enough for %" PRIu64 " learners at most with"
		" samples of %" PRIu64 ": start fewer (-m), or give more text (--corpus)", tokens, s.parts, d->context);
}

static int split(const struct dataset *d)
{
	char stem[DATASET_PATH];
	struct tool_command unpack, data;
	const char *const *all[] = { unpack.v, data.v };
	struct shard_info info;
	int rc = shard_facts(&info, WHOLE, d->trust);

	if (rc == 0)
		rc = check_enough(d, info.tokens);
	if (rc < 0)
		return rc;
	snprintf(stem, sizeof stem, DIRECTORY "/%u", d->learners);
	begin(&unpack, d->key);
	tool_add_pair(&unpack, "-d", WHOLE);
	begin(&data, d->key);
	add_ids(&data, &info);
	tool_add_count(&data, "--split", d->learners);
	tool_add_pair(&data, "--holdout", HOLDOUT);
	tool_add_count(&data, "--block", block_of(info.tokens));
	tool_add_pair(&data, "-o", stem);
	return tool_pipe(all, 2, -1, -1);
}

/* ---- all together ---- */

/* What the corpus was made of stays told when it is gone. */
static int note_origin(const struct dataset *d)
{
	const char *origin = d->corpus ? fd_name(d->corpus) : DEFAULT;

	return place_put(ORIGIN, origin, strlen(origin), false);
}

/* Nothing unless the run had a corpus once: the default one it may have again, and no other unasked. */
static int check_lost(const struct dataset *d)
{
	struct buf origin = BUF_INIT;
	glob_t parts;
	bool found = glob(DIRECTORY "/*.tok", GLOB_NOSORT, NULL, &parts) == 0;
	int rc = place_read(ORIGIN, ERR_TEXT, &origin);

	globfree(&parts);
	if (rc == 1 && strcmp(origin.data, DEFAULT) == 0)
		rc = 0;
	else if (rc == 1)
		rc = err_set(ERR_USAGE, "the run has lost its text, " WHOLE ", which was made of %s: bring it back, or"
			" give it with --corpus", origin.data);
	else if (rc == 0 && (found || d->begun))
		rc = err_set(ERR_USAGE, "the run has lost its text, or had it elsewhere, and " WHOLE
			" is not there: give it with --corpus");
	buf_release(&origin);
	return rc;
}

/* Parts of a corpus that was there before may be of another text: all that are wanted are dealt out anew. */
static int make_whole(const struct dataset *d)
{
	int rc = 0;

	if (!d->corpus && is_split(d)) {
		say_note(d->say, WHOLE ": not there: the parts that were dealt out of it do");
		return 0;
	}
	if (!d->corpus)
		rc = check_lost(d);
	if (rc == 0)
		rc = check_ids(d->corpus, d->model, d->trust);
	if (rc == 0 && !d->corpus)
		say_note(d->say, "the corpus is " DEFAULT);
	if (rc == 0)
		rc = pack(d->corpus, d->key, d->trust);
	if (rc == 0)
		rc = note_origin(d);
	return rc < 0 ? rc : split(d);
}

int dataset_make(const struct dataset *d)
{
	int rc = dir_make(DIRECTORY, 0777);

	if (rc < 0)
		return rc;
	if (access(WHOLE, F_OK) < 0)
		return make_whole(d);
	if (d->corpus)
		rc = compare(d->corpus, d->trust);
	return rc < 0 || is_split(d) ? rc : split(d);
}
