#include "round/manifest.h"

#include <stdlib.h>
#include <unistd.h>

#include "form/card.h"
#include "io/place.h"
#include "round/run.h"
#include "round/rundir.h"
#include "unit.h"

static struct key owner, stranger;
static struct trust user;

static void new_key(struct key *k, const char *name)
{
	CHECK(sig_generate(&k->secret) == 0);
	snprintf(k->name, sizeof k->name, "%s", name);
}

static struct key_pub pub_of(const struct key *k, const char *name)
{
	struct key_pub p;

	key_public(&p, k);
	snprintf(p.name, sizeof p.name, "%s", name);
	return p;
}

static void configure(struct manifest *m)
{
	static const char text[] = "d_model 16\nlayers 1\nheads 2\nff 32\ncontext 16\n";
	struct conf conf = { 0 };

	CHECK(conf_parse(&conf, text, strlen(text)) == 0);
	CHECK(model_conf_read(&m->model, &conf) == 0 && train_conf_read(&m->train, &conf) == 0);
	CHECK(model_layout(&m->model, &m->layout) == 0);
	CHECK(run_model_digest(m->meta.model, &m->model, &m->layout) == 0);
	conf_release(&conf);
}

static void fill(struct manifest *m)
{
	struct key_pub a, b;
	struct key other;

	*m = (struct manifest){ .owner = owner.secret.pub };
	configure(m);
	manifest_defaults(m);
	m->serial = 4;
	m->adopt = (struct adopt_rule){ ADOPT_MIX, 0.125 };
	m->experts = MERGE_BY_ROUTED;
	m->meta.seed = 7;
	CHECK(manifest_identify(m) == 0);
	new_key(&other, "x");
	a = pub_of(&other, "anna");
	new_key(&other, "x");
	b = pub_of(&other, "bert");
	CHECK(manifest_admit(m, &a, ROLE_LEARNER) == 0);
	CHECK(manifest_admit(m, &b, ROLE_LEARNER | ROLE_SYNCER) == 0);
	CHECK(manifest_revoke(m, "bert") == 0);
}

static void defaults(void)
{
	struct manifest m = { 0 };

	manifest_defaults(&m);
	CHECK(m.fragments == 24 && m.interval == 24 && m.overlap == 2 && m.quorum == 1 && m.grace == 1);
	CHECK(m.rule == MERGE_RDA && m.experts == MERGE_BY_TOKENS && m.outer.eta == 0.7 && m.outer.mu == 0.9 && m.outlier == 100);
	CHECK(m.lease == 30 && m.keep == 2 && m.adopt.how == ADOPT_REBASE && m.delta == ENC_F32);
	configure(&m);
	manifest_defaults(&m);
	CHECK(m.fragments == 11); /* of so many tensors */
	manifest_release(&m);
}

static void words(void)
{
	struct adopt_rule a;
	char text[48];
	unsigned roles;

	CHECK(adopt_parse("overwrite", &a) == 0 && a.how == ADOPT_OVERWRITE);
	CHECK(adopt_parse("rebase", &a) == 0 && a.how == ADOPT_REBASE);
	adopt_text(text, &a);
	CHECK_STR(text, "rebase");
	CHECK(adopt_parse("mix:0.25", &a) == 0 && a.how == ADOPT_MIX && a.mix == 0.25);
	adopt_text(text, &a);
	CHECK_STR(text, "mix:0.25");
	CHECK(adopt_parse("mix", &a) == ERR_DATA && adopt_parse("mix:", &a) == ERR_DATA);
	CHECK(adopt_parse("mix:1.5", &a) == ERR_DATA && adopt_parse("mix:-1", &a) == ERR_DATA);
	CHECK(adopt_parse("mix:nan", &a) == ERR_DATA && adopt_parse("", &a) == ERR_DATA);
	CHECK(role_parse("both", &roles) == 0 && roles == (ROLE_LEARNER | ROLE_SYNCER));
	CHECK(role_parse("owner", &roles) == ERR_DATA && role_parse("", &roles) == ERR_DATA);
}

static void what_is_written_is_read(void)
{
	struct header text = { 0 }, twice = { 0 };
	struct buf one = BUF_INIT, two = BUF_INIT;
	struct manifest m, again;

	fill(&m);
	CHECK(manifest_write(&m, &text) == 0);
	CHECK(manifest_read(&again, &text, &owner.secret.pub) == 0);
	CHECK(again.serial == 4 && again.adopt.mix == 0.125 && again.experts == MERGE_BY_ROUTED && again.layout.n == m.layout.n);
	CHECK(again.members == 2 && !again.member[0].revoked && again.member[1].revoked);
	CHECK_STR(again.member[1].key.name, "bert");
	CHECK_STR(again.meta.run, m.meta.run);
	CHECK(manifest_write(&again, &twice) == 0);
	CHECK(conf_format(&text.keys, &one) == 0 && conf_format(&twice.keys, &two) == 0);
	CHECK_STR(one.data, two.data);
	manifest_release(&m);
	manifest_release(&again);
	header_release(&text);
	header_release(&twice);
	buf_release(&one);
	buf_release(&two);
}

static void refused(const char *key, const char *value, const char *why)
{
	struct header text = { 0 };
	struct manifest m, again;

	fill(&m);
	CHECK(manifest_write(&m, &text) == 0);
	if (value)
		CHECK(conf_set(&text.keys, key, value) == 0);
	else
		conf_unset(&text.keys, key);
	CHECK(manifest_read(&again, &text, &owner.secret.pub) == ERR_DATA);
	CHECK_SAYS(why);
	CHECK(again.layout.v == NULL && again.member == NULL);
	manifest_release(&m);
	header_release(&text);
}

/* Of a run that is older than the key. */
static void experts_by_tokens_where_it_does_not_say(void)
{
	struct header text = { 0 };
	struct manifest m, again;

	fill(&m);
	CHECK(manifest_write(&m, &text) == 0);
	conf_unset(&text.keys, "expert_weights");
	CHECK(manifest_read(&again, &text, &owner.secret.pub) == 0 && again.experts == MERGE_BY_TOKENS);
	manifest_release(&m);
	manifest_release(&again);
	header_release(&text);
}

#define KEY "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
static void hostile_values(void)
{
	static const char *const needed[] = { "kind", "run", "model", "serial", "nonce", "fragments",
		"interval", "overlap", "quorum", "invite", "grace", "rule", "outer_lr", "momentum", "outlier",
		"adopt", "delta", "target_steps", "target_tokens", "checkpoint_every", "keep", "lease",
		"conf.d_model", "conf.layers" };

	for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
		refused(needed[i], NULL, "");
	refused("kind", "head", "is a head, not a manifest");
	refused("serial", "0", "serial");
	refused("serial", "9007199254740993", "serial");
	refused("nonce", "00", "nonce");
	refused("nonce", "00000000000000000000000000000000", "run id is not");
	refused("seed", "8", "run id is not");
	refused("label", "other", "run id is not");
	refused("conf.lr", "0.5", "run id is not");
	refused("conf.vocab", "300", "model digest");
	refused("fragments", "0", "fragments");
	refused("fragments", "12", "12 fragments, and the model has only 11 tensors");
	refused("fragments", "1001", "fragments");
	refused("fragments", "4294967297", "fragments");
	refused("interval", "0", "interval");
	refused("interval", "1.5", "interval");
	refused("overlap", "0", "overlap");
	refused("quorum", "0", "quorum");
	refused("quorum", "-1", "quorum");
	refused("quorum", "two", "quorum");
	refused("grace", "-0.5", "grace");
	refused("grace", "nan", "grace");
	refused("grace", "1e999", "grace");
	refused("rule", "mean", "rule");
	refused("expert_weights", "all", "key 'expert_weights': unknown weights 'all'");
	refused("outer_lr", "-1", "outer_lr");
	refused("momentum", "1", "momentum");
	refused("adopt", "mix:7", "adopt");
	refused("delta", "raw", "f32r, f32 or bf16");
	refused("delta", "q3", "delta");
	refused("lease", "0", "lease");
	refused("keep", "x", "keep");
	refused("member.0", "learner " KEY, "member.0");
	refused("member.0", "king " KEY " a", "member.0");
	refused("member.0", "learner AAAA a", "member.0");
	refused("member.0", "learner " KEY " ../a", "member.0");
	refused("member.0", "learner " KEY " a b", "member.0");
	refused("member.0", "learner  " KEY " a", "member.0");
	refused("revoked.0", "learner " KEY " a", "revoked.0");
	refused("revoked.0", KEY, "revoked.0");
	refused("member.1", "learner " KEY " anna", "two members are called 'anna'");
}

static void one_key_has_one_place(void)
{
	struct header text = { 0 };
	struct manifest m, again;
	const char *line;

	fill(&m);
	CHECK(manifest_write(&m, &text) == 0);
	line = conf_get(&text.keys, "member.0");
	CHECK(conf_set(&text.keys, "member.1", line) == 0);
	CHECK(manifest_read(&again, &text, &owner.secret.pub) == ERR_DATA);
	CHECK_SAYS("have one key");
	conf_unset(&text.keys, "member.1");
	CHECK(manifest_read(&again, &text, &m.member[0].key.pub) == ERR_DATA);
	CHECK_SAYS("the owner's key");
	manifest_release(&m);
	header_release(&text);
}

static void contradictions(void)
{
	struct manifest m;

	fill(&m);
	m.quorum = 3;
	m.invite = 2;
	CHECK(manifest_check(&m) == ERR_DATA);
	CHECK_SAYS("never a quorum of 3");
	m.invite = 0;
	CHECK(manifest_check(&m) == 0);
	m.delta = ENC_PLAIN;
	CHECK(manifest_check(&m) == ERR_DATA);
	manifest_release(&m);
}

static void who_is_believed(void)
{
	struct manifest m;
	struct trust t, bars = { 0 };
	struct key_pub s = pub_of(&stranger, "carl");
	struct sig_public anna, bert;

	fill(&m);
	anna = m.member[0].key.pub;
	bert = m.member[1].key.pub;
	CHECK(manifest_trust(&m, ROLE_LEARNER, &user, &owner, &t) == 0);
	CHECK(trust_judge(&t, &anna, NULL) == 0 && trust_judge(&t, &owner.secret.pub, NULL) == 0);
	CHECK(trust_judge(&t, &bert, NULL) == ERR_AUTH);
	CHECK_SAYS("revoked");
	CHECK(trust_judge(&t, &stranger.secret.pub, NULL) == ERR_AUTH);
	CHECK(trust_named(&t, "anna") && !trust_named(&t, "bert"));
	trust_release(&t);
	CHECK(manifest_trust(&m, ROLE_SYNCER, &user, NULL, &t) == 0);
	CHECK(trust_judge(&t, &anna, NULL) == ERR_AUTH && trust_judge(&t, &m.owner, NULL) == 0);
	trust_release(&t);
	CHECK(manifest_trust(&m, ROLE_LEARNER, &user, &stranger, &t) == ERR_AUTH);
	CHECK_SAYS("dl-key admit -r RUN --as learner");
	CHECK(t.v == NULL);
	CHECK(manifest_admit(&m, &s, ROLE_SYNCER) == 0);
	CHECK(manifest_trust(&m, ROLE_LEARNER, &user, &stranger, &t) == ERR_AUTH);
	CHECK(manifest_trust(&m, ROLE_SYNCER, &user, &stranger, &t) == 0);
	trust_release(&t);
	CHECK(trust_bar(&bars, &anna) == 0); /* the user knows more than the run */
	CHECK(manifest_trust(&m, ROLE_LEARNER, &bars, NULL, &t) == 0);
	CHECK(trust_judge(&t, &anna, NULL) == ERR_AUTH);
	trust_release(&t);
	trust_release(&bars);
	CHECK(manifest_revoke(&m, "carl") == 0);
	CHECK(manifest_trust(&m, ROLE_SYNCER, &user, &stranger, &t) == ERR_AUTH);
	CHECK_SAYS("revoked in this run");
	manifest_release(&m);
}

static void who_takes_part(void)
{
	struct manifest m;
	struct key_pub anna, bert, s = pub_of(&stranger, "anna"), self = pub_of(&owner, "me");

	fill(&m);
	anna = m.member[0].key;
	bert = m.member[1].key;
	CHECK(manifest_admit(&m, &anna, ROLE_LEARNER) == 1 && manifest_admit(&m, &self, ROLE_SYNCER) == 1);
	CHECK(manifest_admit(&m, &anna, ROLE_SYNCER) == 0 && m.member[0].roles == ROLE_SYNCER);
	CHECK(manifest_admit(&m, &s, ROLE_LEARNER) == ERR_DATA);
	CHECK(manifest_admit(&m, &bert, ROLE_LEARNER) == ERR_AUTH);
	CHECK(manifest_revoke(&m, "anna") == 0 && manifest_revoke(&m, "anna") == 1);
	CHECK(!manifest_member(&m, "anna"));
	CHECK(manifest_admit(&m, &s, ROLE_LEARNER) == 0 && manifest_member(&m, "anna"));
	CHECK(memcmp(&manifest_member(&m, "anna")->key.pub, &s.pub, sizeof s.pub) == 0);
	CHECK(manifest_revoke(&m, "ann") == ERR_DATA);
	CHECK_SAYS("did you mean 'anna'?");
	memcpy(s.name, "..", 3);
	CHECK(manifest_admit(&m, &s, ROLE_LEARNER) < 0);
	manifest_release(&m);
}

/* As another process publishes it. */
static void publish(struct manifest *m, const struct key *by)
{
	struct header h = { 0 };
	struct buf bytes = BUF_INIT;

	CHECK(manifest_write(m, &h) == 0 && card_seal(&bytes, &h, &by->secret, NULL) == 0);
	CHECK(place_put(RUNDIR_MANIFEST, bytes.data, bytes.len, true) == 0);
	header_release(&h);
	buf_release(&bytes);
}

static void a_higher_serial_takes_effect(void)
{
	struct manifest m, seen, other;
	uint64_t serial;

	fill(&m);
	CHECK(manifest_load(&seen, &user) == ERR_IO);
	CHECK(manifest_publish(&m, &stranger) == ERR_AUTH);
	CHECK_SAYS("only the owner");
	CHECK(m.serial == 4 && manifest_publish(&m, &owner) == 0 && m.serial == 5);
	CHECK(manifest_load(&seen, &user) == 0 && seen.serial == 5);
	CHECK(manifest_refresh(&seen, &user) == 0 && manifest_refresh(&m, &user) == 0);
	m.quorum = 3;
	CHECK(manifest_publish(&m, &owner) == 0);
	CHECK(manifest_refresh(&seen, &user) == 1 && seen.quorum == 3 && seen.serial == 6);
	m.serial = 5;
	m.quorum = 9;
	publish(&m, &owner); /* an old one comes back */
	CHECK(manifest_refresh(&seen, &user) == ERR_AUTH && seen.quorum == 3);
	CHECK_SAYS("rolled back");
	CHECK(manifest_refresh(&seen, &user) == 0 && seen.quorum == 3);
	m.serial = 7;
	m.fragments = 3;
	publish(&m, &owner);
	CHECK(manifest_refresh(&seen, &user) == ERR_DATA && seen.fragments == 11);
	serial = m.serial;
	fill(&other);
	other.serial = serial;
	publish(&other, &owner);
	CHECK(manifest_refresh(&seen, &user) == ERR_AUTH && seen.serial == 6);
	CHECK_SAYS("another run");
	m.fragments = 11;
	publish(&m, &stranger);
	CHECK(manifest_refresh(&seen, &user) == ERR_AUTH && seen.serial == 6);
	CHECK(place_put(RUNDIR_MANIFEST, "", 0, true) == 0);
	CHECK(manifest_refresh(&seen, &user) < 0 && seen.serial == 6);
	CHECK(place_remove(RUNDIR_MANIFEST) == 1 && manifest_refresh(&seen, &user) == ERR_IO);
	manifest_release(&m);
	manifest_release(&seen);
	manifest_release(&other);
}

int main(void)
{
	char dir[] = "/tmp/dl-manifest-XXXXXX";
	struct key_pub self;

	if (!mkdtemp(dir) || chdir(dir) < 0)
		return 1;
	new_key(&owner, "me");
	new_key(&stranger, "carl");
	self = pub_of(&owner, "me");
	CHECK(trust_put(&user, &self, true) == 0);
	defaults();
	words();
	what_is_written_is_read();
	experts_by_tokens_where_it_does_not_say();
	hostile_values();
	one_key_has_one_place();
	contradictions();
	who_is_believed();
	who_takes_part();
	a_higher_serial_takes_effect();
	trust_release(&user);
	CHECK(chdir("/") == 0 && rmdir(dir) == 0);
	return unit_done("manifest");
}
