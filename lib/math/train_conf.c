#include "math/train_conf.h"

const char *const train_keys[] = { "lr", "lr_min_ratio", "warmup", "decay_steps",
	"decay_tokens", "beta1", "beta2", "eps", "weight_decay", "clip", "optimizer", "muon_momentum", "batch", NULL };

static int read_optimizer(struct train_conf *t, const struct conf *from)
{
	const char *text = conf_get(from, "optimizer");
	int rc = text ? optimizer_kind_parse(text, &t->optimizer) : 0;

	if (rc < 0)
		return err_at(rc, "key 'optimizer'");
	rc = conf_f64(from, "muon_momentum", 0, 1 - 1e-9, &t->muon_momentum);
	return rc < 0 ? rc : 0;
}

int train_conf_read(struct train_conf *t, const struct conf *from)
{
	struct sched *s = &t->sched;
	struct adamw_conf *a = &t->adamw;
	int rc;

	*t = (struct train_conf){
		.sched = { .lr = 1e-3, .lr_min_ratio = 0.1, .warmup = 40, .decay_steps = 768 },
		.adamw = { .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1,
			.clip = 1 },
		.optimizer = OPTIMIZER_ADAMW,
		.muon_momentum = 0.95,
		.batch = 8,
		.context = MODEL_CONTEXT,
	};
	if ((rc = conf_f64(from, "lr", 0, 1e3, &s->lr)) < 0 ||
		(rc = conf_f64(from, "lr_min_ratio", 0, 1, &s->lr_min_ratio)) < 0 ||
		(rc = conf_u64(from, "warmup", 0, 1000000000000, &s->warmup)) < 0 ||
		(rc = conf_u64(from, "decay_steps", 0, 1000000000000, &s->decay_steps)) < 0 ||
		(rc = conf_u64(from, "decay_tokens", 0, UINT64_MAX, &s->decay_tokens)) < 0 ||
		(rc = conf_f64(from, "beta1", 0, 1 - 1e-9, &a->beta1)) < 0 ||
		(rc = conf_f64(from, "beta2", 0, 1 - 1e-9, &a->beta2)) < 0 ||
		(rc = conf_f64(from, "eps", 1e-15, 1, &a->eps)) < 0 ||
		(rc = conf_f64(from, "weight_decay", 0, 1e3, &a->weight_decay)) < 0 ||
		(rc = conf_f64(from, "clip", 0, 1e9, &a->clip)) < 0 ||
		(rc = read_optimizer(t, from)) < 0 ||
		(rc = conf_u64(from, "batch", 1, 1 << 20, &t->batch)) < 0 ||
		(rc = conf_u64(from, "context", 1, MODEL_CONTEXT_MAX, &t->context)) < 0)
		return rc;
	return 0;
}

int train_conf_write(const struct train_conf *t, struct conf *to)
{
	const struct sched *s = &t->sched;
	const struct adamw_conf *a = &t->adamw;
	int rc;

	if ((rc = conf_set_f64(to, "lr", s->lr)) < 0 ||
		(rc = conf_set_f64(to, "lr_min_ratio", s->lr_min_ratio)) < 0 ||
		(rc = conf_set_u64(to, "warmup", s->warmup)) < 0 ||
		(rc = conf_set_u64(to, "decay_steps", s->decay_steps)) < 0 ||
		(s->decay_tokens && (rc = conf_set_u64(to, "decay_tokens", s->decay_tokens)) < 0) ||
		(rc = conf_set_f64(to, "beta1", a->beta1)) < 0 ||
		(rc = conf_set_f64(to, "beta2", a->beta2)) < 0 ||
		(rc = conf_set_f64(to, "eps", a->eps)) < 0 ||
		(rc = conf_set_f64(to, "weight_decay", a->weight_decay)) < 0 ||
		(rc = conf_set_f64(to, "clip", a->clip)) < 0 ||
		(rc = conf_set(to, "optimizer", optimizer_kind_name(t->optimizer))) < 0 ||
		(rc = conf_set_f64(to, "muon_momentum", t->muon_momentum)) < 0 ||
		(rc = conf_set_u64(to, "batch", t->batch)) < 0)
		return rc;
	return 0;
}
