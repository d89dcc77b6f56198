#include "round/head.h"

#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "form/card.h"
#include "form/meta.h"
#include "io/place.h"
#include "round/fields.h"
#include "round/fragment.h"
#include "round/rundir.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define INVITED ((size_t)1 << 20) /* longest list of names */
#define LINE 160                  /* longest line of a fragment: four counts, an identity */

static const char *const phases[] = {
	[PHASE_RUNNING] = "running",
	[PHASE_CLOSING] = "closing",
	[PHASE_DONE] = "done",
};

#define WHOLE(name, least) { #name, FIELD_U64, offsetof(struct head, name), least, FIELD_COUNT }
#define TIME(key, name, least) { key, FIELD_F64, offsetof(struct head, times.name), least, DBL_MAX }
static const struct field fields[] = {
	{ "run", FIELD_HEX, offsetof(struct head, run), 0, 32 },
	{ "nonce", FIELD_HEX, offsetof(struct head, nonce), 0, 16 },
	WHOLE(epoch, 1), WHOLE(counter, 0), WHOLE(serial, 0), WHOLE(step, 0), WHOLE(tokens, 0),
	WHOLE(trained, 0), TIME("xi_step", step, 0), TIME("xi_quorum", quorum, 0),
	TIME("xi_sync", sync, 0), TIME("slack", slack, -DBL_MAX), TIME("window", window, 0),
	WHOLE(tape_lines, 0),
};

const char *phase_name(enum phase p)
{
	return phases[p];
}

int head_init(struct head *h, unsigned fragments)
{
	*h = (struct head){ .fragments = fragments };
	h->fragment = calloc(fragments ? fragments : 1, sizeof *h->fragment);
	return h->fragment ? 0 : err_nomem();
}

static void forget_calls(struct head *h)
{
	for (size_t i = 0; i < h->calls; i++)
		free(h->call[i].invited);
	free(h->call);
	h->call = NULL;
	h->calls = 0;
}

void head_release(struct head *h)
{
	forget_calls(h);
	free(h->fragment);
	*h = (struct head){ 0 };
}

bool head_newer(const struct head *a, const struct head *b)
{
	return a->epoch != b->epoch ? a->epoch > b->epoch : a->counter > b->counter;
}

/* ---- calls ---- */

bool head_lists(const char *names, const char *learner, unsigned *n)
{
	const size_t size = strlen(learner);
	bool found = false;
	size_t length;

	if (n)
		*n = 0;
	for (const char *at = names ? names : ""; *at; at += length + (at[length] == ',')) {
		length = strcspn(at, ",");
		found |= length == size && memcmp(at, learner, size) == 0;
		if (n)
			++*n;
	}
	return found;
}

bool head_invites(const struct head_call *c, const char *learner)
{
	return !c->invited || head_lists(c->invited, learner, NULL);
}

int head_add_call(struct head *h, uint64_t round, unsigned fragment, uint64_t version,
	const char *invited)
{
	struct head_call *v = realloc(h->call, (h->calls + 1) * sizeof *v);
	char *copy = invited ? strdup(invited) : NULL;

	if (v)
		h->call = v;
	if (!v || (invited && !copy)) {
		free(copy);
		return err_nomem();
	}
	v[h->calls++] = (struct head_call){ round, version, fragment, copy };
	return 0;
}

void head_end_call(struct head *h, uint64_t round)
{
	size_t kept = 0;

	for (size_t i = 0; i < h->calls; i++) {
		if (h->call[i].round == round)
			free(h->call[i].invited);
		else
			h->call[kept++] = h->call[i];
	}
	h->calls = kept;
}

const struct head_call *head_call_of(const struct head *h, unsigned fragment)
{
	for (size_t i = 0; i < h->calls; i++)
		if (h->call[i].fragment == fragment)
			return &h->call[i];
	return NULL;
}

/* ---- writing ---- */

static int write_fragment(const struct head *h, unsigned i, struct conf *to)
{
	const struct head_fragment *f = &h->fragment[i];
	char name[5], line[LINE], id[2 * SIG_DIGEST + 1];

	sig_hex(id, f->id.b, sizeof f->id.b);
	snprintf(line, sizeof line, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %s", f->version,
		f->round, f->step, f->tokens, id);
	return conf_set(to, rundir_fragment_name(name, i), line);
}

static int write_call(const struct head *h, size_t i, struct conf *to)
{
	const struct head_call *c = &h->call[i];
	struct buf line = BUF_INIT;
	char key[32], name[5];
	int rc = buf_fmt(&line, "%" PRIu64 " %s %" PRIu64 " %s", c->round,
		rundir_fragment_name(name, c->fragment), c->version, c->invited ? c->invited : "*");

	snprintf(key, sizeof key, "call.%zu", i);
	if (rc == 0)
		rc = conf_set(to, key, line.data);
	buf_release(&line);
	return rc;
}

int head_write(const struct head *h, struct header *to)
{
	char hash[2 * SIG_DIGEST + 1];
	int rc = conf_set(&to->keys, "kind", kind_name(KIND_HEAD));

	sig_hex(hash, h->tape_hash.b, sizeof h->tape_hash.b);
	if (rc == 0)
		rc = conf_set(&to->keys, "phase", phase_name(h->phase));
	if (rc == 0)
		rc = fields_write(h, fields, COUNT(fields), &to->keys);
	if (rc == 0)
		rc = conf_set(&to->keys, "tape_hash", hash);
	for (unsigned i = 0; i < h->fragments && rc == 0; i++)
		rc = write_fragment(h, i, &to->keys);
	for (size_t i = 0; i < h->calls && rc == 0; i++)
		rc = write_call(h, i, &to->keys);
	return rc;
}

/* ---- reading ---- */

static int read_digest(digest *to, const char *text)
{
	return text && strspn(text, "0123456789abcdef") == 2 * SIG_DIGEST
		? sig_unhex(to->b, sizeof to->b, text)
		: err_set(ERR_DATA, "not an identity of %d hex digits", 2 * SIG_DIGEST);
}

static int parse_fragment(struct head_fragment *f, char *line)
{
	char *word[5];
	int rc = fields_words(line, word, 5);

	if (rc < 0 || (rc = fields_count(word[0], &f->version)) < 0 ||
		(rc = fields_count(word[1], &f->round)) < 0 ||
		(rc = fields_count(word[2], &f->step)) < 0 ||
		(rc = fields_count(word[3], &f->tokens)) < 0)
		return rc;
	return read_digest(&f->id, word[4]);
}

static int read_fragment(struct head *h, unsigned i, const struct conf *from)
{
	char name[5], line[LINE];
	int rc = fields_line(line, sizeof line, from, rundir_fragment_name(name, i));

	if (rc < 0)
		return rc;
	rc = parse_fragment(&h->fragment[i], line);
	return rc < 0 ? err_at(rc, "key '%s'", name) : 0;
}

static int check_invited(const char *names)
{
	char name[KEY_NAME + 1];
	const char *at = names;

	if (strlen(names) > INVITED)
		return err_set(ERR_DATA, "too many names");
	for (;;) {
		size_t length = strcspn(at, ",");

		if (length >= sizeof name)
			return err_set(ERR_DATA, "a name is too long");
		memcpy(name, at, length);
		name[length] = '\0';
		if (key_name_check("learner", name) < 0)
			return ERR_DATA;
		if (!at[length])
			return 0;
		at += length + 1;
	}
}

/* Rounds ascend, and no fragment has two. */
static int check_call(const struct head *h, uint64_t round, unsigned fragment, uint64_t version)
{
	if (fragment >= h->fragments)
		return err_set(ERR_DATA, "fragment %u, of %u", fragment, h->fragments);
	if (head_call_of(h, fragment) || round == 0 ||
		(h->calls && h->call[h->calls - 1].round >= round))
		return err_set(ERR_DATA, "out of order");
	if (version != h->fragment[fragment].version)
		return err_set(ERR_DATA, "not for the newest version");
	return 0;
}

static int parse_call(struct head *h, char *line)
{
	uint64_t round, version;
	unsigned fragment;
	char *word[4];
	int rc = fields_words(line, word, 4);

	if (rc < 0 || (rc = fields_count(word[0], &round)) < 0 ||
		(rc = rundir_fragment_parse(word[1], &fragment)) < 0 ||
		(rc = fields_count(word[2], &version)) < 0 ||
		(rc = check_call(h, round, fragment, version)) < 0)
		return rc;
	if (strcmp(word[3], "*") == 0)
		return head_add_call(h, round, fragment, version, NULL);
	rc = check_invited(word[3]);
	return rc < 0 ? rc : head_add_call(h, round, fragment, version, word[3]);
}

static int read_calls(struct head *h, const struct conf *from)
{
	const char *text;
	char key[32];
	int rc = 0;

	for (size_t i = 0; rc == 0 && i <= h->fragments; i++) {
		char *line;

		snprintf(key, sizeof key, "call.%zu", i);
		if (!(text = conf_get(from, key)))
			return 0;
		if (!(line = strdup(text)))
			return err_nomem();
		if ((rc = parse_call(h, line)) < 0)
			rc = err_at(rc, "key '%s'", key);
		free(line);
	}
	return rc;
}

static int read_all(struct head *h, const struct conf *from)
{
	char extra[5];
	int rc;

	if ((rc = fields_kind(from, KIND_HEAD)) < 0 ||
		(rc = fields_word(from, "phase", phases, COUNT(phases))) < 0)
		return rc;
	h->phase = (enum phase)rc;
	if ((rc = fields_read(h, fields, COUNT(fields), from)) < 0)
		return rc;
	if ((rc = read_digest(&h->tape_hash, conf_get(from, "tape_hash"))) < 0)
		return err_at(rc, "key 'tape_hash'");
	for (unsigned i = 0; i < h->fragments && rc == 0; i++)
		rc = read_fragment(h, i, from);
	if (rc == 0 && h->fragments < FRAGMENT_MAX &&
		conf_get(from, rundir_fragment_name(extra, h->fragments)))
		rc = err_set(ERR_DATA, "more than %u fragments", h->fragments);
	return rc < 0 ? rc : read_calls(h, from);
}

int head_read(struct head *h, const struct header *from, unsigned fragments)
{
	int rc = head_init(h, fragments);

	if (rc == 0)
		rc = read_all(h, &from->keys);
	if (rc < 0)
		head_release(h);
	return rc;
}

int head_parse(struct head *h, const char *bytes, size_t n, const char *run, unsigned fragments,
	const struct trust *syncers)
{
	struct header from = { .keys = { 0 } };
	struct sig_public signer;
	int rc = card_parse(&from, &signer, bytes, n, RUNDIR_HEAD, syncers);

	if (rc == 0 && (rc = head_read(h, &from, fragments)) < 0)
		rc = err_at(rc, "%s", RUNDIR_HEAD);
	if (rc == 0 && strcmp(h->run, run) != 0) {
		head_release(h);
		rc = err_set(ERR_AUTH, "%s: is of another run", RUNDIR_HEAD);
	}
	header_release(&from);
	return rc;
}

int head_load(struct head *h, const char *run, unsigned fragments, const struct trust *syncers)
{
	struct buf bytes = BUF_INIT;
	int rc = place_read(RUNDIR_HEAD, CARD_BYTES, &bytes);

	if (rc > 0 && (rc = head_parse(h, bytes.data, bytes.len, run, fragments, syncers)) == 0)
		rc = 1;
	buf_release(&bytes);
	return rc;
}
