#include "form/card.h"

#include <stdlib.h>
#include <unistd.h>

#include "form/frame.h"
#include "io/fd.h"
#include "unit.h"

static struct key key;
static struct trust trust;

static void fill(struct header *h)
{
	CHECK(conf_set(&h->keys, "kind", "head") == 0);
	CHECK(conf_set(&h->keys, "epoch", "3") == 0);
}

static int parse(const struct buf *b, size_t n, const struct trust *t)
{
	struct sig_public signer;
	struct header h = { 0 };
	int rc = card_parse(&h, &signer, b->data, n, "head", t);

	header_release(&h);
	return rc;
}

static void what_is_sealed_is_read(void)
{
	struct header h = { 0 }, again = { 0 };
	struct buf bytes = BUF_INIT, same = BUF_INIT;
	struct sig_public signer;
	digest id;

	fill(&h);
	CHECK(card_seal(&bytes, &h, &key.secret, &id) == 0);
	CHECK(card_seal(&same, &h, &key.secret, NULL) == 0);
	CHECK(bytes.len == same.len && memcmp(bytes.data, same.data, bytes.len) == 0);
	CHECK(card_parse(&again, &signer, bytes.data, bytes.len, "head", &trust) == 0);
	CHECK(memcmp(&signer, &key.secret.pub, sizeof signer) == 0);
	CHECK_STR(conf_get(&again.keys, "epoch"), "3");
	header_release(&h);
	header_release(&again);
	buf_release(&bytes);
	buf_release(&same);
}

static void not_a_byte_may_differ(void)
{
	struct header h = { 0 };
	struct buf bytes = BUF_INIT;

	fill(&h);
	CHECK(card_seal(&bytes, &h, &key.secret, NULL) == 0);
	CHECK(parse(&bytes, 0, &trust) < 0);
	for (size_t n = 1; n < bytes.len; n++)
		CHECK(parse(&bytes, n, &trust) == ERR_AUTH || n < 8);
	CHECK(buf_add(&bytes, "", 1) == 0 && parse(&bytes, bytes.len, &trust) == ERR_AUTH);
	bytes.len--;
	for (size_t i = 0; i < bytes.len; i++) {
		bytes.data[i] = (char)(bytes.data[i] ^ 4);
		CHECK(parse(&bytes, bytes.len, &trust) < 0);
		bytes.data[i] = (char)(bytes.data[i] ^ 4);
	}
	CHECK(parse(&bytes, bytes.len, &trust) == 0);
	header_release(&h);
	buf_release(&bytes);
}

static void strangers(void)
{
	struct trust nobody = { 0 };
	struct header h = { 0 };
	struct buf bytes = BUF_INIT;

	fill(&h);
	CHECK(card_seal(&bytes, &h, &key.secret, NULL) == 0);
	CHECK(parse(&bytes, bytes.len, &nobody) == ERR_AUTH);
	CHECK_SAYS("head: signed by");
	CHECK(parse(&bytes, bytes.len, NULL) == 0);
	CHECK(trust_bar(&trust, &key.secret.pub) == 0);
	CHECK(parse(&bytes, bytes.len, &trust) == ERR_AUTH);
	CHECK_SAYS("revoked");
	header_release(&h);
	buf_release(&bytes);
}

static void tensors_and_length(void)
{
	struct tensor t = { .name = "a", .dtype = DTYPE_F32, .enc = ENC_F32, .rank = 1, .dim = { 1 } };
	struct header h = { 0 };
	struct buf bytes = BUF_INIT, bomb = BUF_INIT;
	struct frame_writer *w = NULL;
	char *long_value = malloc(3 << 20), name[16];
	const float one = 1;
	int fd = -1;

	fill(&h);
	memset(long_value, 'x', 3 << 20);
	long_value[(3 << 20) - 1] = '\0';
	CHECK(conf_set(&h.keys, "a", long_value) == 0);
	CHECK(card_seal(&bytes, &h, &key.secret, NULL) == 0 && parse(&bytes, bytes.len, NULL) == 0);
	for (int i = 0; i < 8; i++) { /* a few thousand bytes that would become a lot of text */
		snprintf(name, sizeof name, "b%d", i);
		CHECK(conf_set(&h.keys, name, long_value) == 0);
	}
	CHECK(card_seal(&bomb, &h, &key.secret, NULL) == 0 && bomb.len < 65536);
	CHECK(parse(&bomb, bomb.len, NULL) == ERR_DATA);
	CHECK_SAYS("head: longer than");
	CHECK(tensors_push(&h.tensors, &t) == 0);
	CHECK(card_seal(&bytes, &h, &key.secret, NULL) == ERR_DATA);
	conf_release(&h.keys);
	CHECK(fd_temporary(&fd) == 0 && frame_create(&w, fd, &h, &key.secret, NULL) == 0);
	CHECK(frame_write(w, &one, NULL, 1) == 0 && frame_finish(w, NULL) == 0);
	frame_writer_free(w);
	buf_clear(&bytes);
	CHECK(lseek(fd, 0, SEEK_SET) == 0 && fd_slurp(fd, CARD_BYTES, &bytes) == 0);
	CHECK(parse(&bytes, bytes.len, NULL) == ERR_DATA);
	CHECK_SAYS("tensors");
	close(fd);
	free(long_value);
	header_release(&h);
	buf_release(&bytes);
	buf_release(&bomb);
}

int main(void)
{
	struct key_pub pub;

	CHECK(sig_generate(&key.secret) == 0);
	snprintf(key.name, sizeof key.name, "me");
	key_public(&pub, &key);
	CHECK(trust_put(&trust, &pub, true) == 0);
	what_is_sealed_is_read();
	not_a_byte_may_differ();
	tensors_and_length();
	strangers();
	trust_release(&trust);
	return unit_done("card");
}
