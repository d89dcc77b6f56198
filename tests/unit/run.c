/* Digests that tie files together: what they depend on, and what not. */
#include "round/run.h"
#include "form/sig.h"
#include "unit.h"

static void configure(struct model_conf *mc, struct train_conf *tc, struct tensors *layout)
{
	const char *text = model_preset("tiny");
	struct conf conf = { 0 };

	*layout = (struct tensors){ 0 };
	CHECK(conf_parse(&conf, text, strlen(text)) == 0);
	CHECK(model_conf_read(mc, &conf) == 0 && train_conf_read(tc, &conf) == 0);
	CHECK(model_layout(mc, layout) == 0);
	conf_release(&conf);
}

static void test_digest(void)
{
	struct model_conf mc;
	struct train_conf tc;
	struct tensors layout;
	char first[65], again[65];

	configure(&mc, &tc, &layout);
	CHECK(run_model_digest(first, &mc, &layout) == 0 && strlen(first) == 64);
	layout.v[0].enc = ENC_BF16;
	CHECK(run_model_digest(again, &mc, &layout) == 0);
	CHECK_STR(again, first);
	mc.rope_theta = 10001;
	CHECK(run_model_digest(again, &mc, &layout) == 0 && strcmp(again, first) != 0);
	mc.rope_theta = 10000;
	strcpy(layout.v[0].name, "other");
	CHECK(run_model_digest(again, &mc, &layout) == 0 && strcmp(again, first) != 0);
	tensors_release(&layout);
}

static void test_id(void)
{
	struct model_conf mc;
	struct train_conf tc;
	struct tensors layout;
	char id[5][33];

	configure(&mc, &tc, &layout);
	CHECK(run_id(id[0], "ab", &tc, 1, "") == 0 && run_id(id[1], "ab", &tc, 1, "") == 0);
	CHECK_STR(id[0], id[1]);
	CHECK(run_id(id[1], "ac", &tc, 1, "") == 0 && run_id(id[2], "ab", &tc, 2, "") == 0);
	CHECK(run_id(id[3], "ab", &tc, 1, "x") == 0);
	tc.sched.lr *= 2;
	CHECK(run_id(id[4], "ab", &tc, 1, "") == 0);
	for (int i = 1; i < 5; i++)
		CHECK(strlen(id[i]) == 32 && strcmp(id[0], id[i]) != 0);
	tensors_release(&layout);
}

static void test_header(void)
{
	struct model_conf mc, mc2;
	struct train_conf tc, tc2;
	struct header h = { 0 };
	char digits[65];

	configure(&mc, &tc, &h.tensors);
	tc.sched.lr = 0.00123;
	CHECK(run_conf_write(&mc, &tc, &h) == 0);
	CHECK(run_conf_read(&mc2, &tc2, &h) == ERR_DATA); /* no digest yet */
	CHECK(run_model_digest(digits, &mc, &h.tensors) == 0 && conf_set(&h.keys, "model", digits) == 0);
	CHECK(run_conf_read(&mc2, &tc2, &h) == 0);
	CHECK(mc2.d_model == 128 && mc2.context == 128 && tc2.sched.lr == 0.00123 && tc2.batch == 8);
	CHECK(conf_set(&h.keys, "conf.norm_eps", "1e-6") == 0);
	CHECK(run_conf_read(&mc2, &tc2, &h) == ERR_DATA);
	CHECK_SAYS("digest");
	CHECK(conf_set(&h.keys, "conf.norm_eps", "1e-5") == 0 && conf_set(&h.keys, "conf.ff", "385") == 0);
	CHECK(run_conf_read(&mc2, &tc2, &h) == ERR_DATA);
	CHECK_SAYS("mlp");
	header_release(&h);
}

int main(void)
{
	if (sig_init() < 0)
		return 1;
	test_digest();
	test_id();
	test_header();
	return unit_done("run");
}
