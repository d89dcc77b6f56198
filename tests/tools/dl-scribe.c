/*
 * dl-scribe - what a syncer and learners would leave in a run directory, from a script:
 *
 *     dl-scribe RUN < script
 *
 *     tape SECONDS KIND KEY=VALUE...     a line of the tape of epoch 1; IDx is an identity of letter x
 *     head PHASE                         a head that knows the tape so far
 *     beat NAME TRAINED ANSWERED LOST ROUND      the same for every fragment
 *
 * Signs with one's own key.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "form/card.h"
#include "io/fd.h"
#include "io/place.h"
#include "round/beat.h"
#include "round/head.h"
#include "round/manifest.h"
#include "round/rundir.h"
#include "round/tape.h"

struct scribe {
	struct manifest manifest;
	struct key key;
	struct tape *tape;
	uint64_t counter;
};

static int seal(const struct scribe *s, const char *path, const struct header *h)
{
	struct buf bytes = BUF_INIT;
	int rc = card_seal(&bytes, h, &s->key.secret, NULL);

	if (rc == 0 && (rc = place_make(path)) == 0)
		rc = place_put(path, bytes.data, bytes.len, true);
	buf_release(&bytes);
	return rc;
}

static int put_head(struct scribe *s, const char *phase)
{
	struct head head = { .epoch = 0 };
	struct header h = { .keys = { 0 } };
	int rc = head_init(&head, s->manifest.fragments);

	memcpy(head.run, s->manifest.meta.run, sizeof head.run);
	snprintf(head.nonce, sizeof head.nonce, "0123456789abcdef");
	head.epoch = 1;
	head.counter = ++s->counter;
	head.serial = s->manifest.serial;
	head.tape_lines = tape_lines(s->tape);
	tape_last(s->tape, &head.tape_hash);
	while (head.phase < PHASE_DONE && strcmp(phase, phase_name(head.phase)) != 0)
		head.phase++;
	if (rc == 0)
		rc = head_add_call(&head, 9, 0, 0, NULL);
	if (rc == 0 && (rc = head_write(&head, &h)) == 0)
		rc = seal(s, RUNDIR_HEAD, &h);
	header_release(&h);
	head_release(&head);
	return rc;
}

static int put_beat(struct scribe *s, char *rest)
{
	struct beat b = { .incarnation = 0 };
	struct header h = { .keys = { 0 } };
	char path[RUNDIR_PATH], *name = strsep(&rest, " ");
	uint64_t x[4] = { 0 };
	int rc = beat_init(&b, s->manifest.fragments);

	for (int i = 0; i < 4 && rc == 0 && rest; i++)
		rc = num_u64(strsep(&rest, " "), &x[i]);
	memcpy(b.run, s->manifest.meta.run, sizeof b.run);
	snprintf(b.learner, sizeof b.learner, "%s", name);
	snprintf(b.nonce, sizeof b.nonce, "0123456789abcdef");
	b.incarnation = 1;
	b.counter = ++s->counter;
	b.trained = x[0];
	b.steps = x[0] / 100;
	for (unsigned p = 0; rc == 0 && p < b.fragments; p++)
		b.fragment[p] = (struct beat_fragment){ .answered = x[1], .lost = x[2], .round = x[3],
			.tokens = x[0] - x[1] - x[2], .steps = x[0] > x[1] + x[2] };
	if (rc == 0 && (rc = beat_write(&b, &h)) == 0)
		rc = seal(s, rundir_beat(path, name), &h);
	header_release(&h);
	beat_release(&b);
	return rc;
}

static void expand(char *out, size_t cap, const char *text)
{
	size_t n = 0;

	for (; *text && n + 70 < cap; text++)
		if (strncmp(text, "ID", 2) == 0)
			n += (size_t)snprintf(out + n, cap - n, "%062d%02x", 0, *(text += 2));
		else
			out[n++] = *text;
	out[n] = '\0';
}

static int put_line(struct scribe *s, char *rest)
{
	char *seconds = strsep(&rest, " "), *kind = strsep(&rest, " "), *word;
	char value[4096];
	double x = 0;
	int rc = num_f64(seconds, &x);

	if (rc < 0)
		return rc;
	tape_begin(s->tape, x, kind ? kind : "");
	while ((word = strsep(&rest, " "))) {
		const char *key = strsep(&word, "=");

		expand(value, sizeof value, word ? word : "");
		tape_put(s->tape, key, value);
	}
	return tape_end(s->tape, false);
}

static int obey(struct scribe *s, char *line)
{
	char *verb = strsep(&line, " ");

	if (line && strcmp(verb, "tape") == 0)
		return put_line(s, line);
	if (line && strcmp(verb, "head") == 0)
		return put_head(s, line);
	if (line && strcmp(verb, "beat") == 0)
		return put_beat(s, line);
	return err_set(ERR_USAGE, "what is '%s'?", verb);
}

static int run(struct scribe *s, const char *name)
{
	struct trust trust = { .v = NULL };
	char line[8192];
	digest start;
	int rc = key_find(&s->key, NULL, NULL);

	if (rc == 0 && (rc = trust_load(&trust, NULL, &s->key)) == 0 && (rc = rundir_enter(name)) == 0)
		rc = manifest_load(&s->manifest, &trust);
	if (rc == 0) {
		tape_start(&start, s->manifest.meta.run);
		rc = tape_open(&s->tape, s->manifest.meta.run, 1, 0, &start);
	}
	while (rc == 0 && fgets(line, sizeof line, stdin)) {
		line[strcspn(line, "\n")] = '\0';
		rc = obey(s, line);
	}
	tape_close(s->tape);
	manifest_release(&s->manifest);
	trust_release(&trust);
	key_wipe(&s->key);
	return rc;
}

int main(int argc, char **argv)
{
	struct scribe s = { .counter = 0 };
	int rc = fd_standard();

	if (rc == 0)
		rc = argc == 2 ? run(&s, argv[1]) : err_set(ERR_USAGE, "usage: dl-scribe RUN < script");
	if (rc < 0)
		fprintf(stderr, "dl-scribe: %s\n", err_text());
	return err_status(rc);
}
