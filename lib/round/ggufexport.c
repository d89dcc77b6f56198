#include "round/ggufexport.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "form/gguf.h"
#include "form/gguf_vocab.h"
#include "form/vocab.h"
#include "io/fd.h"
#include "io/output.h"
#include "io/wake.h"
#include "round/checkpoint.h"

#define BYTES 256

/* Where a tensor of the checkpoint goes. */
struct target {
	size_t tensor;      /* of the gguf file */
	uint64_t first;     /* its first row there: of an expert */
	uint32_t head_rows; /* rows to be paired among so many; 0: they stay in order */
};

struct job {
	const struct export *x;
	const char *to; /* what is written, for messages */
	enum gguf_type type;
	struct checkpoint ckpt;
	const struct tensors *table; /* of the checkpoint */
	struct gguf_writer *w;
	struct target *target;       /* of each tensor of the table */
	size_t declared;             /* tensors of the gguf file */
	/* the tensor under way */
	uint64_t row;                /* the next to be written */
	float *partial;              /* (longest row) the beginning of a row */
	size_t filled;
	uint64_t strange, first_strange; /* values that are not finite */
};

/* A value that does not fit is the input's fault, anything else the output's. */
static int blame(const struct job *j, int rc)
{
	if (rc == ERR_DATA)
		return err_at(rc, "%s", frame_name(j->x->from));
	return rc < 0 ? err_at(rc, "%s", j->to) : 0;
}

/* ---- keys ---- */

static int put_u32(struct gguf_writer *w, const char *what, uint32_t value)
{
	char key[64];

	snprintf(key, sizeof key, "llama.%s", what);
	return gguf_put_u32(w, key, value);
}

static int put_general(const struct job *j)
{
	static const uint32_t file_type[GGUF_TYPES] = { 0, 1, 32, 7 };
	struct gguf_writer *w = j->w;
	int rc = gguf_put_text(w, "general.architecture", "llama");

	if (rc == 0)
		rc = gguf_put_text(w, "general.type", "model");
	if (rc == 0)
		rc = gguf_put_text(w, "general.name", j->ckpt.meta.label[0] ? j->ckpt.meta.label : "dl");
	if (rc == 0)
		rc = gguf_put_u32(w, "general.alignment", GGUF_ALIGN);
	if (rc == 0)
		rc = gguf_put_u32(w, "general.file_type", file_type[j->type]);
	if (rc == 0 && j->type == GGUF_Q8_0)
		rc = gguf_put_u32(w, "general.quantization_version", 2);
	return rc;
}

static int put_model(const struct job *j)
{
	const struct model_conf *c = &j->ckpt.model;
	const struct { const char *key; uint32_t value; } sizes[] = {
		{ "vocab_size", c->vocab },
		{ "context_length", c->context },
		{ "embedding_length", c->d_model },
		{ "block_count", c->layers },
		{ "feed_forward_length", c->ff },
		{ "attention.head_count", c->heads },
		{ "attention.head_count_kv", c->kv_heads },
		{ "attention.key_length", c->head_dim },
		{ "attention.value_length", c->head_dim },
		{ "rope.dimension_count", c->head_dim },
		{ "expert_count", c->experts },
		{ "expert_used_count", c->experts_per_token },
	};
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < sizeof sizes / sizeof sizes[0]; i++)
		if (sizes[i].value) /* no experts, no keys */
			rc = put_u32(j->w, sizes[i].key, sizes[i].value);
	if (rc == 0)
		rc = gguf_put_f32(j->w, "llama.rope.freq_base", (float)c->rope_theta);
	if (rc == 0)
		rc = gguf_put_f32(j->w, "llama.attention.layer_norm_rms_epsilon", (float)c->norm_eps);
	return rc;
}

/* ---- vocabulary ---- */

static int check_vocab(const struct model_conf *c, const struct vocab *v)
{
	char found[VOCAB_DIGEST];

	if (v->n > c->vocab)
		return err_set(ERR_DATA, "%zu pieces, and the model has %" PRIu32, v->n, c->vocab);
	vocab_digest(found, v);
	if (c->vocabulary[0] && strcmp(found, c->vocabulary) != 0)
		return err_set(ERR_DATA, "not the vocabulary that the model was made for: %.16s, and the model's is "
			"%.16s", found, c->vocabulary);
	if (v->kind != VOCAB_UNIGRAM && v->kind != VOCAB_BPE)
		return err_set(ERR_DATA, "a vocabulary of words or characters: llama.cpp knows unigram and bpe");
	return 0;
}

/* No two pieces are the same, so that their number tells. */
static bool has_bytes(const struct vocab *v)
{
	size_t n = 0;

	for (size_t i = 0; i < v->n; i++)
		n += v->v[i].type == PIECE_BYTE;
	return n == BYTES;
}

static int put_pieces(const struct job *j)
{
	const struct export *x = j->x;
	struct vocab v = { .n = 0 };
	int rc = vocab_load(&v, x->tokenizer);

	if (rc < 0)
		return rc;
	rc = check_vocab(&j->ckpt.model, &v);
	if (rc < 0)
		rc = err_at(rc, "%s", x->tokenizer);
	else if (v.kind == VOCAB_BPE && !has_bytes(&v))
		say_warn(x->say, "%s: has no pieces for all bytes (spm_train --byte_fallback): llama.cpp cannot "
			"read text with characters that are not in it", x->tokenizer);
	if (rc == 0)
		rc = blame(j, gguf_vocab_pieces(j->w, &v, j->ckpt.model.vocab, !x->no_bos));
	vocab_release(&v);
	return rc;
}

static int put_vocab(const struct job *j)
{
	const struct model_conf *c = &j->ckpt.model;

	if (j->x->tokenizer)
		return put_pieces(j);
	if (c->vocab <= BYTES && !c->vocabulary[0])
		return blame(j, gguf_vocab_bytes(j->w, c->vocab));
	say_warn(j->x->say, "without --tokenizer ids stand for themselves: llama.cpp takes and writes [7] for id 7, "
		"and no text");
	return blame(j, gguf_vocab_ids(j->w, c->vocab));
}

/* ---- the table ---- */

static const struct name {
	const char *ours, *theirs;
	bool turned; /* rows are paired by head */
} names[] = {
	{ "input_layernorm", "attn_norm", false },
	{ "self_attn.q_proj", "attn_q", true },
	{ "self_attn.k_proj", "attn_k", true },
	{ "self_attn.v_proj", "attn_v", false },
	{ "self_attn.o_proj", "attn_output", false },
	{ "post_attention_layernorm", "ffn_norm", false },
	{ "mlp.gate_proj", "ffn_gate", false },
	{ "mlp.up_proj", "ffn_up", false },
	{ "mlp.down_proj", "ffn_down", false },
	{ "block_sparse_moe.gate", "ffn_gate_inp", false },
	{ "w1", "ffn_gate_exps", false },
	{ "w3", "ffn_up_exps", false },
	{ "w2", "ffn_down_exps", false },
};

static const struct name *find_name(const char *part, size_t n)
{
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (strlen(names[i].ours) == n && memcmp(names[i].ours, part, n) == 0)
			return &names[i];
	return NULL;
}

static int no_name(const struct tensor *t)
{
	return err_set(ERR_DATA, "tensor '%s' has no name in a gguf file", t->name);
}

static enum gguf_type type_of(const struct job *j, const struct tensor *t)
{
	if (t->rank < 2 || strstr(t->name, "ffn_gate_inp"))
		return GGUF_F32;
	if (j->type == GGUF_Q8_0 && t->dim[t->rank - 1] % GGUF_BLOCK)
		return GGUF_F16;
	return j->type;
}

static int declare(struct job *j, struct tensor *t)
{
	int rc = tensor_check(t);

	if (rc == 0)
		rc = gguf_put_tensor(j->w, t, type_of(j, t));
	j->declared += rc == 0;
	return rc;
}

/* One that keeps its shape. */
static int declare_alone(struct job *j, struct target *to, const struct tensor *t, const char *name)
{
	struct tensor theirs = *t;

	snprintf(theirs.name, sizeof theirs.name, "%s.weight", name);
	to->tensor = j->declared;
	return declare(j, &theirs);
}

/* The same weight of all experts of a layer, when it is the first one's. The tensors of an expert are
 * neighbours, and so are the merged ones: number k of expert e belongs to number k of expert 0. */
static int declare_expert(struct job *j, struct target *to, size_t i, unsigned layer, uint32_t e,
	const struct name *n)
{
	const struct tensor *t = &j->table->v[i];
	struct tensor merged = { .dtype = DTYPE_F32, .enc = ENC_F32, .rank = 3,
		.dim = { j->ckpt.model.experts, t->dim[0], t->dim[1] } };

	if (e > 0) {
		to->tensor = j->target[i - 3 * (size_t)e].tensor;
		to->first = e * t->dim[0];
		return 0;
	}
	snprintf(merged.name, sizeof merged.name, "blk.%u.%s.weight", layer, n->theirs);
	to->tensor = j->declared;
	return declare(j, &merged);
}

static int declare_of_layer(struct job *j, struct target *to, size_t i, unsigned layer, const char *part)
{
	const char *const end = part + strlen(part) - strlen(".weight");
	const struct name *n;
	char name[64];
	uint32_t e;
	int at = 0;

	if (sscanf(part, "block_sparse_moe.experts.%" SCNu32 ".%n", &e, &at) == 1 && at > 0) {
		n = find_name(part + at, (size_t)(end - part - at));
		return n ? declare_expert(j, to, i, layer, e, n) : no_name(&j->table->v[i]);
	}
	n = find_name(part, (size_t)(end - part));
	if (!n)
		return no_name(&j->table->v[i]);
	to->head_rows = n->turned ? j->ckpt.model.head_dim : 0;
	snprintf(name, sizeof name, "blk.%u.%s", layer, n->theirs);
	return declare_alone(j, to, &j->table->v[i], name);
}

static int declare_one(struct job *j, size_t i)
{
	const struct tensor *t = &j->table->v[i];
	struct target *to = &j->target[i];
	unsigned layer;
	int at = 0;

	if (strcmp(t->name, "model.embed_tokens.weight") == 0)
		return declare_alone(j, to, t, "token_embd");
	if (strcmp(t->name, "model.norm.weight") == 0)
		return declare_alone(j, to, t, "output_norm");
	if (strcmp(t->name, "lm_head.weight") == 0)
		return declare_alone(j, to, t, "output");
	if (sscanf(t->name, "model.layers.%u.%n", &layer, &at) != 1 || at == 0)
		return no_name(t);
	return declare_of_layer(j, to, i, layer, t->name + at);
}

static int put_table(struct job *j)
{
	uint64_t longest = 1;
	int rc = 0;

	j->target = calloc(j->table->n, sizeof *j->target);
	if (!j->target)
		return err_nomem();
	for (size_t i = 0; rc == 0 && i < j->table->n; i++) {
		const struct tensor *t = &j->table->v[i];

		rc = declare_one(j, i);
		if (t->dim[t->rank - 1] > longest)
			longest = t->dim[t->rank - 1];
	}
	j->partial = rc < 0 ? NULL : malloc(longest * sizeof *j->partial);
	return rc == 0 && !j->partial ? err_nomem() : rc;
}

/* ---- values ---- */

/* Of a head of D rows, row j and j + D/2 become 2j and 2j + 1. */
static uint64_t paired(uint64_t row, uint32_t D)
{
	const uint64_t in_head = row % D, half = D / 2;

	return row - in_head + 2 * (in_head % half) + in_head / half;
}

static int put_rows(struct job *j, uint32_t t, const float *value, size_t n)
{
	const struct target *to = &j->target[t];
	const struct tensor *shape = &j->table->v[t];
	int rc = 0;

	if (!to->head_rows)
		rc = gguf_write_rows(j->w, to->tensor, to->first + j->row, value, n);
	else
		for (size_t i = 0; rc == 0 && i < n; i++)
			rc = gguf_write_rows(j->w, to->tensor, paired(j->row + i, to->head_rows),
				value + i * shape->dim[1], 1);
	j->row += n;
	return rc;
}

/* Whole rows go on as they are; what is left of one waits for the next slice. */
static int put_values(struct job *j, uint32_t t, const float *value, size_t n)
{
	const struct tensor *shape = &j->table->v[t];
	const size_t width = (size_t)shape->dim[shape->rank - 1];
	int rc = 0;

	if (j->filled) {
		size_t m = n < width - j->filled ? n : width - j->filled;

		memcpy(j->partial + j->filled, value, m * sizeof *value);
		j->filled += m;
		value += m;
		n -= m;
		if (j->filled < width)
			return 0;
		j->filled = 0;
		rc = put_rows(j, t, j->partial, 1);
	}
	if (rc == 0 && n >= width)
		rc = put_rows(j, t, value, n / width);
	j->filled = n % width;
	memcpy(j->partial, value + (n - j->filled), j->filled * sizeof *value);
	return rc;
}

static void count_strange(struct job *j, const struct frame_slice *s)
{
	for (uint32_t i = 0; i < s->n; i++)
		if (!isfinite(s->value[i]) && j->strange++ == 0)
			j->first_strange = s->first + i;
}

static int take(struct job *j, const struct frame_slice *s)
{
	const struct tensor *t = &j->table->v[s->tensor];
	const bool last = s->first + s->n == t->count;

	if (s->first == 0)
		j->row = j->strange = 0;
	count_strange(j, s);
	if (j->strange && last)
		return err_set(ERR_DATA, "%s: tensor '%s': %" PRIu64 " of its values are not finite, the first is "
			"element %" PRIu64, frame_name(j->x->from), t->name, j->strange, j->first_strange);
	return j->strange ? 0 : blame(j, put_values(j, s->tensor, s->value, s->n));
}

/* All slices up to the verified end of the input. */
static int copy_values(struct job *j)
{
	struct frame_slice s;
	int rc, bad;

	while ((rc = frame_next(j->x->from, &s)) > 0) {
		bad = take(j, &s);
		if (bad == 0 && wake_requested())
			bad = err_set(ERR_IO, "interrupted");
		if (bad < 0)
			return bad;
		if (say_due(j->x->say))
			say_progress(j->x->say, "tensor %" PRIu32 " of %zu", s.tensor + 1, j->table->n);
	}
	return rc;
}

static int begin(struct job *j, int fd)
{
	int rc = gguf_create(&j->w, fd);

	if (rc == 0)
		rc = put_general(j);
	return blame(j, rc < 0 ? rc : put_model(j));
}

static int write_all(struct job *j, int fd)
{
	int rc = begin(j, fd);

	if (rc == 0)
		rc = put_vocab(j);
	if (rc == 0)
		rc = blame(j, put_table(j));
	if (rc == 0)
		rc = copy_values(j);
	say_progress_end(j->x->say);
	return rc < 0 ? rc : blame(j, gguf_finish(j->w));
}

/* ---- the output ---- */

/* Rows are written where they belong, which a pipe has no places for. */
static int through_file(struct job *j, int out)
{
	int fd, rc = fd_temporary(&fd);

	if (rc < 0)
		return rc;
	j->to = "temporary file (TMPDIR)";
	rc = write_all(j, fd);
	if (rc == 0 && lseek(fd, 0, SEEK_SET) < 0)
		rc = err_sys("%s", j->to);
	if (rc == 0 && (rc = fd_copy(fd, out)) < 0)
		rc = err_at(rc, "%s", output_name(j->x->out));
	close(fd);
	return rc;
}

static int write_output(struct job *j)
{
	struct output out = OUTPUT_INIT;
	int rc = output_open(&out, j->x->out, "a gguf file", &j->x->fd, 1);

	if (rc == 0)
		rc = strcmp(j->x->out, "-") == 0 ? through_file(j, out.fd) : write_all(j, out.fd);
	if (rc == 0)
		rc = output_commit(&out);
	output_abort(&out);
	return rc;
}

static enum gguf_type lossless(const struct tensors *ts)
{
	for (size_t i = 0; i < ts->n; i++)
		if (ts->v[i].enc != ENC_BF16)
			return GGUF_F32;
	return GGUF_BF16;
}

static int check_options(struct job *j)
{
	const struct export *x = j->x;
	int rc = strcmp(x->out, "-") != 0 ? vocab_apart(x->out, x->tokenizer) : 0;

	if (rc < 0)
		return rc;
	j->type = lossless(j->table);
	if (x->check)
		return err_set(ERR_USAGE, "option --check: there is no reader of gguf files to run the model with");
	if (x->no_bos && !x->tokenizer)
		return err_set(ERR_USAGE, "option --no-bos goes with --tokenizer");
	return x->dtype && gguf_type_parse(x->dtype, &j->type) < 0 ? err_at(ERR_USAGE, "option --dtype") : 0;
}

int ggufexport(const struct export *x)
{
	struct job j = { .x = x, .to = output_name(x->out), .table = &frame_header(x->from)->tensors };
	int rc = check_options(&j);

	if (rc == 0)
		rc = checkpoint_open(&j.ckpt, x->from);
	if (rc == 0)
		rc = write_output(&j);
	if (rc == 0)
		say_note(x->say, "%s: %zu tensors, %s", output_name(x->out), j.declared, gguf_type_name(j.type));
	gguf_writer_free(j.w);
	free(j.target);
	free(j.partial);
	return rc;
}
