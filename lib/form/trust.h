/*
 * trust - whose seals count.
 *
 * From `path` (option -T: a directory, or a file of public keys), else $DL_TRUST, else
 * CONFIG/trust; and always one's own key. A directory holds NAME.pub for each trusted key, the file
 * name being what this user calls it, and `revoked`: one fingerprint a line (then perhaps a comment
 * after '#', as the key's name), which overrules everything, one's own key too. What the user revoked in CONFIG/trust
 * counts wherever the keys come from. Entries not called *.pub, or called .*, or that are not
 * regular files are passed over; a .pub that makes no sense is an error that names it, and so is a
 * `revoked` that can't be read.
 */
#ifndef TRUST_H
#define TRUST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "form/key.h"

#define TRUST_PRINT 33 /* a fingerprint and its NUL */

struct trust_entry {
	struct key_pub key;
	bool own, revoked;
};
/* A line of `revoked`: all that is known of a key which is in no other list. */
struct revocation {
	char print[TRUST_PRINT];
	char name[KEY_NAME + 1]; /* empty: the line gives none */
};
/* A file `revoked` as it was read last. */
struct trust_list {
	char *path; /* from anywhere */
	digest seen;
};
struct trust {
	struct trust_entry *v;
	size_t n;
	struct revocation *revoked;
	size_t revoked_n;
	struct trust_list list[2]; /* of `path`, of the user */
	size_t lists;
};

/* The directory that `path` or the environment names, else CONFIG/trust (there or not), for
 * trust_add and trust_revoke. */
int trust_where(struct buf *dir, const char *path) ERR_MUST;
/* own may be NULL. On failure *t is empty. */
int trust_load(struct trust *t, const char *path, const struct key *own) ERR_MUST;
/* Looks into the files `revoked` again: 1 when there are keys in them that were not, which are revoked in t then.
 * No key comes back by being in them no more, as when a file server is away. An error leaves t as it is. */
int trust_refresh(struct trust *t) ERR_MUST;
/* For who reads and signs nothing: with one's own key when there is one. None is made. */
int trust_reader(struct trust *t, const char *key, const char *path) ERR_MUST;
void trust_release(struct trust *t);
/* A list that is made by hand, for what names its own participants: one more key; one more that is
 * revoked, whether it is in the list or not. */
int trust_put(struct trust *t, const struct key_pub *key, bool own) ERR_MUST;
int trust_bar(struct trust *t, const struct sig_public *key) ERR_MUST;
/* All that `from` has revoked is revoked in t, too. */
int trust_bar_all(struct trust *t, const struct trust *from) ERR_MUST;
/* One's own key, to sign with: key_find, and ERR_AUTH when the lists that trust_load would read say
 * that it is revoked. */
int trust_signer(struct key *k, const char *key, const char *path, struct say *say) ERR_MUST;
/* 0, or ERR_AUTH: "signed by 0123456789abcdef..., which is not trusted (there: ...)". *name
 * (may be NULL) gets what the key is called here, valid as long as t. */
int trust_judge(const struct trust *t, const struct sig_public *signer, const char **name) ERR_MUST;
bool trust_revoked(const struct trust *t, const struct sig_public *signer);
/* 0, or ERR_AUTH: it is revoked, and what to do to have it back. */
int trust_welcome(const struct trust *t, const struct key_pub *key) ERR_MUST;
/* The key known here under this name, or NULL. */
const struct sig_public *trust_named(const struct trust *t, const char *name);

/* Changes to a directory, which is made when missing. A key that is there already, or is one's own
 * (may be NULL), is not added again: 1, and key->name is what it is called here. Another key of the
 * name is refused unless the old one is revoked; so is a revoked key. */
int trust_add(const char *dir, struct key_pub *key, const struct key *own) ERR_MUST;
/* Takes a key out of the directory; whether it is revoked stays as it is. */
int trust_forget(const char *dir, const char *name_or_fingerprint) ERR_MUST;
/* One's own key (may be NULL) goes by its name too; 1 when it was that one. */
int trust_revoke(const char *dir, const char *name_or_fingerprint, const struct key *own) ERR_MUST;

/* Adds the lines of a `revoked` file's text. */
int trust_parse_revoked(struct trust *t, const char *text, size_t n) ERR_MUST;

#endif
