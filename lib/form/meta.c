#include "form/meta.h"

#include <float.h>
#include <stddef.h>
#include <string.h>

#include "base/say.h"

static const char *const kinds[] = {
	[KIND_CHECKPOINT] = "checkpoint",
	[KIND_DELTA] = "delta",
	[KIND_STATE] = "state",
	[KIND_OUTER] = "outer",
	[KIND_SHARD] = "shard",
	[KIND_SUM] = "sum",
	[KIND_FRAGMENT] = "fragment",
	[KIND_MANIFEST] = "manifest",
	[KIND_HEAD] = "head",
	[KIND_BEAT] = "beat",
	[KIND_EPOCH] = "epoch",
	[KIND_TENSORS] = "tensors",
};
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

enum type { HEX32, HEX64, NAME, FRAGMENT, WHOLE, REAL };

/* The keys in the order they are written. */
static const struct field {
	const char *key;
	enum type type;
	size_t offset;
} fields[] = {
	{ "run", HEX32, offsetof(struct meta, run) },
	{ "model", HEX64, offsetof(struct meta, model) },
	{ "round", WHOLE, offsetof(struct meta, round) },
	{ "step", WHOLE, offsetof(struct meta, step) },
	{ "tokens", WHOLE, offsetof(struct meta, tokens) },
	{ "seed", WHOLE, offsetof(struct meta, seed) },
	{ "label", NAME, offsetof(struct meta, label) },
	{ "merge", HEX64, offsetof(struct meta, merge) },
	{ "base", HEX64, offsetof(struct meta, base) },
	{ "learner", NAME, offsetof(struct meta, learner) },
	{ "steps", WHOLE, offsetof(struct meta, steps) },
	{ "loss_first", REAL, offsetof(struct meta, loss_first) },
	{ "loss_last", REAL, offsetof(struct meta, loss_last) },
	{ "loss_mean", REAL, offsetof(struct meta, loss_mean) },
	{ "shard", HEX64, offsetof(struct meta, shard) },
	{ "cursor", WHOLE, offsetof(struct meta, cursor) },
	{ "context", WHOLE, offsetof(struct meta, context) },
	{ "fragment", FRAGMENT, offsetof(struct meta, fragment) },
	{ "version", WHOLE, offsetof(struct meta, version) },
	{ "epoch", WHOLE, offsetof(struct meta, epoch) },
	{ "incarnation", WHOLE, offsetof(struct meta, incarnation) },
	{ "trained", WHOLE, offsetof(struct meta, trained) },
	{ "answered", WHOLE, offsetof(struct meta, answered) },
};

const char *kind_name(enum kind k)
{
	return kinds[k];
}

static int kind_parse(const char *text, enum kind *out)
{
	char shown[80];

	for (size_t i = 0; i < COUNT(kinds); i++)
		if (strcmp(text, kinds[i]) == 0) {
			*out = (enum kind)i;
			return 0;
		}
	say_escape(shown, sizeof shown, text);
	return err_set(ERR_DATA, "unknown kind of file '%s'", shown);
}

/* `to` has room for digits + 1. */
static int read_hex(char *to, const char *key, const char *text, size_t digits)
{
	if (strlen(text) != digits || strspn(text, "0123456789abcdef") != digits)
		return err_set(ERR_DATA, "key '%s' is not %zu hex digits", key, digits);
	memcpy(to, text, digits + 1);
	return 0;
}

static int read_name(char *to, const char *key, const char *text)
{
	if (key_name_check(key, text) < 0)
		return ERR_DATA; /* the sentence is right; but the user did not type it */
	memcpy(to, text, strlen(text) + 1);
	return 0;
}

static int read_fragment(char *to, const char *text)
{
	if (strlen(text) != 4 || text[0] != 'f' || strspn(text + 1, "0123456789") != 3)
		return err_set(ERR_DATA, "key 'fragment' is not like f007");
	memcpy(to, text, 5);
	return 0;
}

static int read_field(void *to, const struct field *f, const struct conf *keys)
{
	const char *text = conf_get(keys, f->key);
	int rc = 0;

	if (!text)
		return 0;
	switch (f->type) {
	case HEX32: return read_hex(to, f->key, text, 32);
	case HEX64: return read_hex(to, f->key, text, 64);
	case NAME: return read_name(to, f->key, text);
	case FRAGMENT: return read_fragment(to, text);
	case WHOLE: rc = conf_u64(keys, f->key, 0, UINT64_MAX, to); break;
	case REAL: rc = conf_f64(keys, f->key, -DBL_MAX, DBL_MAX, to); break;
	}
	return rc < 0 ? rc : 0;
}

int meta_read(struct meta *m, const struct header *h)
{
	const char *kind = conf_get(&h->keys, "kind");
	int rc;

	*m = (struct meta){ .round = 0 };
	if (!kind)
		return err_set(ERR_DATA, "header does not say what kind of file this is");
	if ((rc = kind_parse(kind, &m->kind)) < 0)
		return rc;
	for (size_t i = 0; i < COUNT(fields); i++)
		if ((rc = read_field((char *)m + fields[i].offset, &fields[i], &h->keys)) < 0)
			return rc;
	return 0;
}

bool meta_is_text(const char *key)
{
	for (size_t i = 0; i < COUNT(fields); i++)
		if (strcmp(key, fields[i].key) == 0)
			return fields[i].type != WHOLE && fields[i].type != REAL;
	return strcmp(key, "kind") == 0 || strncmp(key, "routed", 6) == 0; /* a list, of one number even */
}

/* What a reader of the first checkpoint or fragment of a run looks for. */
static bool even_zero(enum kind kind, const struct field *f)
{
	if (kind == KIND_FRAGMENT)
		return f->offset == offsetof(struct meta, version) ||
			f->offset == offsetof(struct meta, step) ||
			f->offset == offsetof(struct meta, tokens);
	return kind == KIND_CHECKPOINT && (f->offset == offsetof(struct meta, round) ||
					   f->offset == offsetof(struct meta, step) ||
					   f->offset == offsetof(struct meta, tokens));
}

static int write_field(const void *from, const struct field *f, enum kind kind, struct conf *keys)
{
	uint64_t whole;
	double real;

	switch (f->type) {
	case WHOLE:
		memcpy(&whole, from, sizeof whole);
		if (whole || even_zero(kind, f))
			return conf_set_u64(keys, f->key, whole);
		break;
	case REAL:
		memcpy(&real, from, sizeof real);
		if (real != 0)
			return conf_set_f64(keys, f->key, real);
		break;
	case HEX32:
	case HEX64:
	case NAME:
	case FRAGMENT:
		if (*(const char *)from)
			return conf_set(keys, f->key, from);
		break;
	}
	conf_unset(keys, f->key);
	return 0;
}

int meta_write(const struct meta *m, struct header *h)
{
	int rc = conf_set(&h->keys, "kind", kind_name(m->kind));

	for (size_t i = 0; i < COUNT(fields) && rc == 0; i++)
		rc = write_field((const char *)m + fields[i].offset, &fields[i], m->kind, &h->keys);
	return rc;
}

static const char *article(enum kind k)
{
	return strchr("aeiou", kind_name(k)[0]) ? "an" : "a";
}

int meta_want(const struct meta *m, enum kind want)
{
	if (m->kind == want)
		return 0;
	return err_set(ERR_DATA, "is %s %s, not %s %s", article(m->kind), kind_name(m->kind),
		article(want), kind_name(want));
}

static int same_word(const char *what, const char *have, const char *want)
{
	if (strcmp(have, want) == 0)
		return 0;
	return err_set(ERR_DATA, "is of another %s (%.16s, not %.16s)", what, have, want);
}

int meta_same_run(const struct meta *m, const struct meta *other)
{
	int rc = same_word("run", m->run, other->run);

	return rc < 0 ? rc : same_word("model", m->model, other->model);
}
