#include "round/head.h"

#include <stdlib.h>

#include "form/card.h"
#include "unit.h"

static void fill(struct head *h)
{
	CHECK(head_init(h, 2) == 0);
	memset(h->run, 'a', 32);
	memset(h->nonce, '0', 16);
	h->epoch = 3;
	h->counter = 77;
	h->serial = 2;
	h->phase = PHASE_CLOSING;
	h->step = 480;
	h->tokens = 1u << 30;
	h->trained = (uint64_t)1 << 40;
	h->times = (struct policy_times){ 0.25, 0.5, 0.125, -0.125, 0 };
	h->tape_lines = 12;
	memset(&h->tape_hash, 0x5a, sizeof h->tape_hash);
	h->fragment[0] = (struct head_fragment){ 4, 9, 480, 1000, { { 1 } } };
	h->fragment[1] = (struct head_fragment){ 0, 0, 0, 0, { { 2 } } };
	CHECK(head_add_call(h, 10, 1, 0, NULL) == 0);
	CHECK(head_add_call(h, 12, 0, 4, "a,anna,b-1") == 0);
}

static void what_is_written_is_read(void)
{
	struct head h, again;
	struct header text = { 0 }, twice = { 0 };
	struct buf one = BUF_INIT, two = BUF_INIT;

	fill(&h);
	CHECK(head_write(&h, &text) == 0);
	head_release(&h);
	CHECK(head_read(&again, &text, 2) == 0);
	CHECK(again.epoch == 3 && again.counter == 77 && again.phase == PHASE_CLOSING);
	CHECK(again.calls == 2 && again.call[0].round == 10 && !again.call[0].invited);
	CHECK_STR(again.call[1].invited, "a,anna,b-1");
	CHECK(again.fragment[0].round == 9 && again.fragment[1].id.b[0] == 2);
	CHECK(again.times.slack == -0.125 && again.tape_hash.b[31] == 0x5a);
	CHECK(head_write(&again, &twice) == 0);
	CHECK(conf_format(&text.keys, &one) == 0 && conf_format(&twice.keys, &two) == 0);
	CHECK_STR(one.data, two.data);
	head_release(&again);
	header_release(&text);
	header_release(&twice);
	buf_release(&one);
	buf_release(&two);
}

static void calls(void)
{
	struct head h;

	fill(&h);
	CHECK(head_invites(&h.call[0], "whoever"));
	CHECK(head_invites(&h.call[1], "a") && head_invites(&h.call[1], "anna") &&
		head_invites(&h.call[1], "b-1"));
	unsigned n = 7;

	CHECK(!head_lists("", "a", &n) && n == 0 && !head_lists(NULL, "a", &n) && n == 0);
	CHECK(head_lists("a,b-1", "b-1", &n) && n == 2 && !head_lists("anna", "a", &n) && n == 1);
	CHECK(!head_invites(&h.call[1], "b") && !head_invites(&h.call[1], "ann") &&
		!head_invites(&h.call[1], "a,anna") && !head_invites(&h.call[1], ""));
	CHECK(head_call_of(&h, 1)->round == 10 && head_call_of(&h, 0)->round == 12);
	head_end_call(&h, 99);
	head_end_call(&h, 10);
	CHECK(h.calls == 1 && h.call[0].round == 12 && !head_call_of(&h, 1));
	head_end_call(&h, 12);
	CHECK(h.calls == 0);
	head_release(&h);
}

static void newer(void)
{
	struct head a = { .epoch = 2, .counter = 1 }, b = { .epoch = 1, .counter = 9 };

	CHECK(head_newer(&a, &b) && !head_newer(&b, &a) && !head_newer(&a, &a));
	b.epoch = 2;
	CHECK(head_newer(&b, &a) && !head_newer(&a, &b));
}

/* One key with another value (NULL: left out) spoils it. */
static void refused(const char *key, const char *value, const char *why)
{
	struct header text = { 0 };
	struct head h, again;

	fill(&h);
	CHECK(head_write(&h, &text) == 0);
	if (value)
		CHECK(conf_set(&text.keys, key, value) == 0);
	else
		conf_unset(&text.keys, key);
	CHECK(head_read(&again, &text, 2) == ERR_DATA);
	CHECK_SAYS(why);
	CHECK(again.fragment == NULL && again.call == NULL);
	head_release(&h);
	header_release(&text);
}

#define ID "0100000000000000000000000000000000000000000000000000000000000000"
static void hostile_values(void)
{
	refused("kind", "beat", "not a head");
	refused("kind", NULL, "not a head");
	refused("run", "abc", "run");
	refused("nonce", "00000000000000zz", "nonce");
	refused("nonce", NULL, "nonce");
	refused("epoch", "0", "epoch");
	refused("epoch", "-1", "epoch");
	refused("counter", "9007199254740993", "counter");
	refused("counter", "1e3", "counter");
	refused("phase", "walking", "phase");
	refused("step", NULL, "step");
	refused("xi_step", "-0.1", "xi_step");
	refused("xi_step", "nan", "xi_step");
	refused("window", "inf", "window");
	refused("tape_hash", "00", "tape_hash");
	refused("f000", NULL, "f000");
	refused("f000", "4 9 480 1000", "f000");
	refused("f000", "4 9 480 1000 " ID " 1", "f000");
	refused("f000", "4 9  480 1000 " ID, "f000");
	refused("f000", "4 9 480 18446744073709551615 " ID, "f000");
	refused("f000", "4 9 480 x " ID, "f000");
	refused("f001", "0 0 0 0 zz", "f001");
	refused("f002", "0 0 0 0 " ID, "more than 2");
	refused("call.0", "0 f001 0 *", "call.0");
	refused("call.0", "13 f001 0 *", "call.1");
	refused("call.0", "10 f000 4 *", "call.1");
	refused("call.0", "10 f002 0 *", "call.0");
	refused("call.0", "10 1 0 *", "call.0");
	refused("call.0", "10 f001 1 *", "newest");
	refused("call.0", "10 f001 0 a,,b", "call.0");
	refused("call.0", "10 f001 0 a,", "call.0");
	refused("call.0", "10 f001 0 ../a", "call.0");
	refused("call.2", "14 f001 0 *", "call.2");
	refused("call.1", "12 f000 4 "
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "call.1");
}

static void another_number_of_fragments(void)
{
	struct header text = { 0 };
	struct head h, again;

	fill(&h);
	CHECK(head_write(&h, &text) == 0);
	CHECK(head_read(&again, &text, 3) == ERR_DATA);
	CHECK(head_read(&again, &text, 1) == ERR_DATA);
	head_release(&h);
	header_release(&text);
}

static int parse(const struct buf *bytes, const char *run)
{
	struct head h = { 0 };
	int rc = head_parse(&h, bytes->data, bytes->len, run, 2, NULL);

	head_release(&h);
	return rc;
}

static void that_of_another_run(void)
{
	struct header text = { 0 };
	struct sig_secret key;
	struct buf bytes = BUF_INIT;
	struct head h;

	fill(&h);
	CHECK(sig_generate(&key) == 0 && head_write(&h, &text) == 0 && card_seal(&bytes, &text, &key, NULL) == 0);
	CHECK(parse(&bytes, h.run) == 0);
	CHECK(parse(&bytes, "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb") == ERR_AUTH);
	CHECK_STR(err_text(), "head: is of another run");
	head_release(&h);
	header_release(&text);
	buf_release(&bytes);
}

int main(void)
{
	what_is_written_is_read();
	calls();
	newer();
	hostile_values();
	another_number_of_fragments();
	that_of_another_run();
	return unit_done("head");
}
