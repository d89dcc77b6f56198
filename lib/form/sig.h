/*
 * sig - hashes and signatures: BLAKE2b-256 and Ed25519. The only file that includes sodium.h.
 */
#ifndef SIG_H
#define SIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define SIG_DIGEST 32
#define SIG_PUBLIC 32
#define SIG_SEAL 64
#define SIG_SEED 32

typedef struct digest { uint8_t b[SIG_DIGEST]; } digest;

struct sig_public { uint8_t b[SIG_PUBLIC]; };
/* Secret: wipe with sig_secret_wipe. */
struct sig_secret {
	uint8_t seed[SIG_SEED];
	uint8_t expanded[64];
	struct sig_public pub;
};

int sig_init(void) ERR_MUST; /* once per process, cheap to repeat */

/* Incremental BLAKE2b-256; opaque, anywhere in memory, not to be copied or moved: libsodium wants its state aligned,
 * which malloc does not promise, and finds a place within. */
#define SIG_ALIGN 64
struct sig_hash { uint8_t state[384 + SIG_ALIGN]; };
void sig_hash_init(struct sig_hash *h);
void sig_hash_add(struct sig_hash *h, const void *bytes, size_t n);
void sig_hash_end(struct sig_hash *h, digest *out);
void sig_digest(digest *out, const void *bytes, size_t n);

int sig_generate(struct sig_secret *s) ERR_MUST;
/* Refuses all zeros. */
int sig_from_seed(struct sig_secret *s, const uint8_t seed[SIG_SEED]) ERR_MUST;
void sig_secret_wipe(struct sig_secret *s);
void sig_sign(uint8_t seal[SIG_SEAL], const digest *d, const struct sig_secret *s);
bool sig_verify(const uint8_t seal[SIG_SEAL], const digest *d, const struct sig_public *p);
void sig_wipe(void *p, size_t n);

/* Lower-case hex; out has room for 2n+1. */
void sig_hex(char *out, const uint8_t *bytes, size_t n);
/* ERR_DATA unless exactly 2n hex digits. */
int sig_unhex(uint8_t *bytes, size_t n, const char *hex) ERR_MUST;
/* Fingerprint of a key: first 16 bytes of BLAKE2b-256("dl key" || key), as 32 hex digits. */
void sig_fingerprint(char out[33], const struct sig_public *p);
/* Room for n bytes in base64 with padding and NUL; cap is at least that. */
#define SIG_BASE64(n) (((n) + 2) / 3 * 4 + 1)
void sig_base64(char *out, size_t cap, const uint8_t *bytes, size_t n);
int sig_unbase64(uint8_t *bytes, size_t n, const char *text) ERR_MUST; /* exactly n bytes */

#endif
