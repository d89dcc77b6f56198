/*
 * trust - whose seals count.
 *
 * From `path` (option -T: a .pub file or a directory of them), else $DL_TRUST, else CONFIG/trust; and
 * always one's own key. A directory holds NAME.pub for each trusted key, the file name being what
 * this user calls it, and `revoked`: one fingerprint a line, which overrules everything, one's own
 * key too. Entries that are not regular files named *.pub are passed over; a .pub that makes no
 * sense is an error that names it, and so is a `revoked` that can't be read.
 */
#ifndef TRUST_H
#define TRUST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "form/key.h"

struct trust_entry {
	struct key_pub key;
	bool revoked;
};
struct trust {
	struct trust_entry *v;
	size_t n;
	char (*revoked)[33]; /* fingerprints */
	size_t revoked_n;
};

/* own may be NULL. */
int trust_load(struct trust *t, const char *path, const struct key *own) ERR_MUST;
void trust_release(struct trust *t);
/* 0, or ERR_AUTH: "signed by 0123456789abcdef..., which is not trusted (dl-key trust FILE.pub)". *name
 * (may be NULL) gets what the key is called here, valid as long as t. */
int trust_judge(const struct trust *t, const struct sig_public *signer, const char **name) ERR_MUST;
/* The key known here under this name, or NULL. */
const struct sig_public *trust_named(const struct trust *t, const char *name);
int trust_add(const char *dir, const struct key_pub *key) ERR_MUST;
int trust_revoke(const char *dir, const char *name_or_fingerprint) ERR_MUST;

#endif
