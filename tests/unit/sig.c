/* sig: known answers, and what is refused. */
#include "form/sig.h"
#include "unit.h"

static void test_hash(void)
{
	static const char want[] = "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319";
	struct sig_hash h;
	char hex[65];
	digest d;

	sig_digest(&d, "abc", 3);
	sig_hex(hex, d.b, sizeof d.b);
	CHECK_STR(hex, want);
	sig_hash_init(&h);
	sig_hash_add(&h, "a", 1);
	sig_hash_add(&h, "bc", 2);
	sig_hash_end(&h, &d);
	sig_hex(hex, d.b, sizeof d.b);
	CHECK_STR(hex, want);
}

/* The first key of RFC 8032, section 7.1. */
static void test_keys(void)
{
	static const char seed[] = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
	static const char pub[] = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
	uint8_t bytes[SIG_SEED], zero[SIG_SEED] = { 0 }, seal[SIG_SEAL];
	struct sig_secret s;
	char hex[65], print[33];
	digest d = { { 1 } };

	CHECK(sig_unhex(bytes, sizeof bytes, seed) == 0 && sig_from_seed(&s, bytes) == 0);
	sig_hex(hex, s.pub.b, sizeof s.pub.b);
	CHECK_STR(hex, pub);
	sig_fingerprint(print, &s.pub);
	CHECK_STR(print, "4082808b6f6b2aec5d0eb4e0c2cd494f");
	sig_sign(seal, &d, &s);
	CHECK(sig_verify(seal, &d, &s.pub));
	d.b[31] ^= 0x80;
	CHECK(!sig_verify(seal, &d, &s.pub));
	d.b[31] ^= 0x80;
	seal[63] ^= 1;
	CHECK(!sig_verify(seal, &d, &s.pub));
	sig_secret_wipe(&s);
	CHECK(memcmp(&s.seed, zero, sizeof zero) == 0);
	CHECK(sig_from_seed(&s, zero) == ERR_DATA);
	CHECK(sig_generate(&s) == 0 && memcmp(&s.seed, zero, sizeof zero) != 0);
}

static void test_text(void)
{
	uint8_t bytes[5];
	char text[SIG_BASE64(5)];

	sig_base64(text, sizeof text, (const uint8_t *)"hello", 5);
	CHECK_STR(text, "aGVsbG8=");
	CHECK(sig_unbase64(bytes, 5, "aGVsbG8=") == 0 && memcmp(bytes, "hello", 5) == 0);
	CHECK(sig_unbase64(bytes, 5, "aGVsbG8") == ERR_DATA);
	CHECK(sig_unbase64(bytes, 5, "aGVsbG8= ") == ERR_DATA);
	CHECK(sig_unbase64(bytes, 5, "aGVsbG8h") == ERR_DATA);
	CHECK(sig_unbase64(bytes, 5, "aGVs") == ERR_DATA);
	CHECK(sig_unhex(bytes, 2, "00fF") == 0 && bytes[1] == 0xff);
	CHECK(sig_unhex(bytes, 2, "00f") == ERR_DATA);
	CHECK(sig_unhex(bytes, 2, "00fg") == ERR_DATA);
	CHECK(sig_unhex(bytes, 2, "00ff0") == ERR_DATA);
	CHECK(sig_unhex(bytes, 2, "0:ff") == ERR_DATA);
}

int main(void)
{
	CHECK(sig_init() == 0);
	test_hash();
	test_keys();
	test_text();
	return unit_done("sig");
}
