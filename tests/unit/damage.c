/* damage - what readers of sealed files make of files that were damaged on the way or put together
 * from parts. */
#include "forge.h"

static void test_good(struct forge *f)
{
	CHECK(stream(f->bytes.data, f->bytes.len) == 0);
	CHECK(seek(f->bytes.data, f->bytes.len) == 0);
}

static void test_truncated(struct forge *f)
{
	size_t refused = 0, refused_seek = 0;

	for (size_t n = 0; n < f->bytes.len; n++) {
		refused += stream(f->bytes.data, n) == ERR_AUTH;
		refused_seek += seek(f->bytes.data, n) == ERR_AUTH;
	}
	CHECK(refused == f->bytes.len && refused_seek == f->bytes.len);
	CHECK(stream(f->bytes.data, 0) == ERR_AUTH);
	CHECK_SAYS("x: empty");
	CHECK(stream(f->bytes.data, f->start[2] + 20) == ERR_AUTH);
	CHECK_SAYS("x: frame 2: truncated");
}

/* A reader of all refuses every flip; one that picks, those in what it uses: not the seals of
 * frames that the index vouches for. */
static void test_flipped_bits(struct forge *f)
{
	uint8_t *bytes = (uint8_t *)f->bytes.data;
	size_t refused = 0, accepted_seek = 0, seals = (size_t)(f->frames - 2) * SIG_SEAL * 8;

	for (size_t bit = 0; bit < 8 * f->bytes.len; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		refused += stream(bytes, f->bytes.len) == ERR_AUTH;
		accepted_seek += seek(bytes, f->bytes.len) != ERR_AUTH;
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	CHECK(refused == 8 * f->bytes.len);
	CHECK(accepted_seek <= seals);
}

/* Frames of a, and from 100 on of b, in another order; -1 ends the list. The trailer is that of a. */
static void check_order(
	const struct forge *a, const struct forge *b, const int *order, const char *what)
{
	struct buf bytes = BUF_INIT;

	CHECK(buf_add(&bytes, a->bytes.data, CHAIN_PREAMBLE) == 0);
	for (; *order >= 0; order++) {
		const struct forge *from = *order >= 100 ? b : a;
		size_t start = from->start[*order % 100], end = from->start[*order % 100 + 1];

		CHECK(buf_add(&bytes, from->bytes.data + start, end - start) == 0);
	}
	CHECK(buf_add(&bytes, a->bytes.data + a->start[a->frames], CHAIN_TRAILER) == 0);
	CHECK(stream(bytes.data, bytes.len) == ERR_AUTH);
	CHECK_SAYS(what);
	/* one that picks takes another's frame for what it is: the same bytes, for which the index
	 * vouches */
	CHECK(seek(bytes.data, bytes.len) == ERR_AUTH ||
		(b != a && b->key.seed[0] != a->key.seed[0]));
	buf_release(&bytes);
}

static void test_rearranged(const struct forge *f)
{
	static const int dropped[] = { 0, 1, 3, 4, 5, -1 }, doubled[] = { 0, 1, 2, 2, 3, 4, 5, -1 };
	static const int swapped[] = { 0, 2, 1, 3, 4, 5, -1 }, headless[] = { 1, 2, 3, 4, 5, -1 };
	static const int endless[] = { 0, 1, 2, 3, 4, -1 }, spliced[] = { 0, 1, 102, 3, 4, 5, -1 };
	static const int grafted[] = { 100, 1, 2, 3, 4, 5, -1 },
			 short_end[] = { 0, 1, 2, 3, 5, -1 };
	struct forge same_key, other_key;

	/* the same header and a key that is trusted, too, but another file */
	forge_init(&same_key, 1);
	forge_header(&same_key, text);
	forge_values(&same_key, 0, 2);
	forge_values(&same_key, 2, 3);
	forge_data(&same_key, 1, 0, 1, "\x07", 1);
	forge_end(&same_key);
	forge_good(&other_key, 2);
	CHECK(stream(same_key.bytes.data, same_key.bytes.len) == 0);
	CHECK(stream(other_key.bytes.data, other_key.bytes.len) == 0);

	check_order(f, f, dropped, "frame 2: seal does not verify");
	check_order(f, f, doubled, "frame 3: seal does not verify");
	check_order(f, f, swapped, "frame 1: seal does not verify");
	check_order(f, f, headless, "frame 0: seal does not verify");
	check_order(f, f, short_end, "frame 4: seal does not verify");
	check_order(f, f, endless, "frame 5: ");
	check_order(f, &same_key, spliced, "frame 2: seal does not verify");
	check_order(f, &other_key, spliced, "frame 2: seal does not verify");
	check_order(f, &other_key, grafted, "frame 0: seal does not verify");
	forge_release(&same_key);
	forge_release(&other_key);
}

static void test_appended(const struct forge *f)
{
	struct buf bytes = BUF_INIT;

	CHECK(buf_add(&bytes, f->bytes.data, f->bytes.len) == 0 && buf_str(&bytes, "x") == 0);
	CHECK(stream(bytes.data, bytes.len) == ERR_AUTH);
	CHECK_SAYS("x: damaged: more bytes follow its end");
	CHECK(seek(bytes.data, bytes.len) == ERR_AUTH);
	bytes.len--;
	CHECK(buf_add(&bytes, f->bytes.data, f->bytes.len) == 0);
	CHECK(stream(bytes.data, bytes.len) == ERR_AUTH);
	CHECK(seek(bytes.data, bytes.len) == ERR_AUTH);
	buf_release(&bytes);
}

static void test_not_ours(const struct forge *f)
{
	uint8_t swapped[200];

	CHECK(stream("plain text, longer than a preamble is", 38) == ERR_DATA);
	CHECK_SAYS("x: not a dl file");
	CHECK(stream("abc", 3) == ERR_DATA);
	CHECK(stream("\x28\xb5\x2f\xfd rather short", 16) == ERR_DATA);
	CHECK_SAYS("compressed");
	CHECK(stream("\x89"
		     "DLS\n\x1a\n sent as text............",
		      33) == ERR_AUTH);
	for (unsigned unit = 2; unit <= 8; unit *= 2) {
		for (size_t i = 0; i < sizeof swapped; i++)
			swapped[i] = (uint8_t)f->bytes.data[i ^ (unit - 1)];
		CHECK(stream(swapped, sizeof swapped) == ERR_DATA);
		CHECK_SAYS("order of its bytes");
	}
}

int main(void)
{
	struct forge f;

	forge_good(&f, 1);
	test_good(&f);
	test_truncated(&f);
	test_flipped_bits(&f);
	test_rearranged(&f);
	test_appended(&f);
	test_not_ours(&f);
	forge_release(&f);
	return unit_done("damage");
}
