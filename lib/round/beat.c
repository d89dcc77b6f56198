#include "round/beat.h"

#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "form/meta.h"
#include "round/fields.h"
#include "round/fragment.h"
#include "round/rundir.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define LINE 160 /* longest line of a fragment: six counts */

static const char *const states[] = {
	[BEAT_RUNNING] = "running",
	[BEAT_IDLE] = "idle",
	[BEAT_GONE] = "gone",
};

#define WHOLE(name, least) { #name, FIELD_U64, offsetof(struct beat, name), least, FIELD_COUNT }
#define REAL(name, least) { #name, FIELD_F64, offsetof(struct beat, name), least, DBL_MAX }
static const struct field fields[] = {
	{ "run", FIELD_HEX, offsetof(struct beat, run), 0, 32 },
	{ "learner", FIELD_NAME, offsetof(struct beat, learner), 0, KEY_NAME },
	WHOLE(incarnation, 1),
	{ "nonce", FIELD_HEX, offsetof(struct beat, nonce), 0, 16 },
	WHOLE(counter, 0), WHOLE(epoch, 0), WHOLE(serial, 0), WHOLE(step, 0), WHOLE(steps, 0),
	WHOLE(trained, 0), REAL(step_seconds, 0), REAL(tokens_per_s, 0), REAL(loss, -DBL_MAX),
};

const char *beat_state_name(enum beat_state s)
{
	return states[s];
}

int beat_init(struct beat *b, unsigned fragments)
{
	*b = (struct beat){ .fragments = fragments };
	b->fragment = calloc(fragments ? fragments : 1, sizeof *b->fragment);
	return b->fragment ? 0 : err_nomem();
}

void beat_release(struct beat *b)
{
	free(b->fragment);
	*b = (struct beat){ 0 };
}

static int write_fragment(const struct beat *b, unsigned i, struct conf *to)
{
	const struct beat_fragment *f = &b->fragment[i];
	char name[5], line[LINE];

	snprintf(line, sizeof line,
		"%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, f->version,
		f->steps, f->tokens, f->round, f->answered, f->lost);
	return conf_set(to, rundir_fragment_name(name, i), line);
}

int beat_write(const struct beat *b, struct header *to)
{
	int rc = conf_set(&to->keys, "kind", kind_name(KIND_BEAT));

	if (rc == 0)
		rc = fields_write(b, fields, COUNT(fields), &to->keys);
	if (rc == 0)
		rc = conf_set(&to->keys, "state", beat_state_name(b->state));
	for (unsigned i = 0; i < b->fragments && rc == 0; i++)
		rc = write_fragment(b, i, &to->keys);
	return rc;
}

static int parse_fragment(struct beat_fragment *f, char *line)
{
	char *word[6];
	int rc = fields_words(line, word, 6);

	if (rc < 0 || (rc = fields_count(word[0], &f->version)) < 0 ||
		(rc = fields_count(word[1], &f->steps)) < 0 ||
		(rc = fields_count(word[2], &f->tokens)) < 0 ||
		(rc = fields_count(word[3], &f->round)) < 0 ||
		(rc = fields_count(word[4], &f->answered)) < 0)
		return rc;
	return fields_count(word[5], &f->lost);
}

static int read_fragment(struct beat *b, unsigned i, const struct conf *from)
{
	struct beat_fragment *f = &b->fragment[i];
	char name[5], line[LINE];
	int rc = fields_line(line, sizeof line, from, rundir_fragment_name(name, i));

	if (rc < 0)
		return rc;
	if ((rc = parse_fragment(f, line)) < 0)
		return err_at(rc, "key '%s'", name);
	if (f->answered + f->lost + f->tokens != b->trained)
		return err_set(ERR_DATA, "key '%s': %" PRIu64 " answered, %" PRIu64 " lost and %" PRIu64
			" under way are not the %" PRIu64 " trained", name, f->answered, f->lost,
			f->tokens, b->trained);
	return 0;
}

static int read_all(struct beat *b, const struct conf *from)
{
	char extra[5];
	int rc;

	if ((rc = fields_kind(from, KIND_BEAT)) < 0 || (rc = fields_read(b, fields, COUNT(fields), from)) < 0 ||
		(rc = fields_word(from, "state", states, COUNT(states))) < 0)
		return rc;
	b->state = (enum beat_state)rc;
	rc = 0;
	for (unsigned i = 0; i < b->fragments && rc == 0; i++)
		rc = read_fragment(b, i, from);
	if (rc == 0 && b->fragments < FRAGMENT_MAX &&
		conf_get(from, rundir_fragment_name(extra, b->fragments)))
		rc = err_set(ERR_DATA, "more than %u fragments", b->fragments);
	return rc;
}

int beat_read(struct beat *b, const struct header *from, unsigned fragments)
{
	int rc = beat_init(b, fragments);

	if (rc == 0)
		rc = read_all(b, &from->keys);
	if (rc < 0)
		beat_release(b);
	return rc;
}
