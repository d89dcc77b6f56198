#include "form/sig.h"

#include <sodium.h>
#include <string.h>

_Static_assert(sizeof(crypto_generichash_state) + SIG_ALIGN <= sizeof(((struct sig_hash *)0)->state) &&
	_Alignof(crypto_generichash_state) <= SIG_ALIGN,
	"sig_hash has room for libsodium's state");
_Static_assert(crypto_sign_SECRETKEYBYTES == sizeof(((struct sig_secret *)0)->expanded),
	"sig_secret has room for libsodium's key");

int sig_init(void)
{
	if (sodium_init() < 0)
		return err_set(ERR_IO, "libsodium: no source of randomness");
	return 0;
}

static crypto_generichash_state *state_of(struct sig_hash *h)
{
	const uintptr_t past = (uintptr_t)h->state % SIG_ALIGN;

	return (crypto_generichash_state *)(void *)(h->state + (past ? SIG_ALIGN - past : 0));
}

/* With a fixed output length and no key none of the three can fail. */
void sig_hash_init(struct sig_hash *h)
{
	crypto_generichash_init(state_of(h), NULL, 0, SIG_DIGEST);
}

void sig_hash_add(struct sig_hash *h, const void *bytes, size_t n)
{
	crypto_generichash_update(state_of(h), bytes, n);
}

void sig_hash_end(struct sig_hash *h, digest *out)
{
	crypto_generichash_final(state_of(h), out->b, SIG_DIGEST);
}

void sig_digest(digest *out, const void *bytes, size_t n)
{
	struct sig_hash h;

	sig_hash_init(&h);
	sig_hash_add(&h, bytes, n);
	sig_hash_end(&h, out);
}

int sig_generate(struct sig_secret *s)
{
	uint8_t seed[SIG_SEED];
	int rc;

	if ((rc = sig_init()) < 0)
		return rc;
	randombytes_buf(seed, sizeof(seed));
	rc = sig_from_seed(s, seed);
	sodium_memzero(seed, sizeof(seed));
	return rc;
}

int sig_from_seed(struct sig_secret *s, const uint8_t seed[SIG_SEED])
{
	if (sodium_is_zero(seed, SIG_SEED))
		return err_set(ERR_DATA, "the key is all zeros");
	memcpy(s->seed, seed, SIG_SEED);
	crypto_sign_seed_keypair(s->pub.b, s->expanded, seed);
	return 0;
}

void sig_secret_wipe(struct sig_secret *s)
{
	sodium_memzero(s, sizeof(*s));
}

void sig_sign(uint8_t seal[SIG_SEAL], const digest *d, const struct sig_secret *s)
{
	crypto_sign_detached(seal, NULL, d->b, SIG_DIGEST, s->expanded);
}

bool sig_verify(const uint8_t seal[SIG_SEAL], const digest *d, const struct sig_public *p)
{
	return crypto_sign_verify_detached(seal, d->b, SIG_DIGEST, p->b) == 0;
}

void sig_wipe(void *p, size_t n)
{
	sodium_memzero(p, n);
}

void sig_hex(char *out, const uint8_t *bytes, size_t n)
{
	sodium_bin2hex(out, 2 * n + 1, bytes, n);
}

int sig_unhex(uint8_t *bytes, size_t n, const char *hex)
{
	size_t got;

	if (strlen(hex) != 2 * n ||
		sodium_hex2bin(bytes, n, hex, 2 * n, NULL, &got, NULL) != 0 || got != n)
		return err_set(ERR_DATA, "'%.80s' is not %zu hex digits", hex, 2 * n);
	return 0;
}

void sig_fingerprint(char out[33], const struct sig_public *p)
{
	static const char tag[] = "dl key";
	struct sig_hash h;
	digest d;

	sig_hash_init(&h);
	sig_hash_add(&h, tag, sizeof(tag) - 1);
	sig_hash_add(&h, p->b, SIG_PUBLIC);
	sig_hash_end(&h, &d);
	sig_hex(out, d.b, 16);
}

void sig_base64(char *out, size_t cap, const uint8_t *bytes, size_t n)
{
	sodium_bin2base64(out, cap, bytes, n, sodium_base64_VARIANT_ORIGINAL);
}

int sig_unbase64(uint8_t *bytes, size_t n, const char *text)
{
	const char *end;
	size_t got;

	if (sodium_base642bin(bytes, n, text, strlen(text), NULL, &got, &end,
		    sodium_base64_VARIANT_ORIGINAL) != 0 || got != n || *end != '\0')
		return err_set(ERR_DATA, "not %zu bytes in base64", n);
	return 0;
}
