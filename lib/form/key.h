/*
 * key - key files and where they are found.
 *
 * NAME.pub: one line, "dl-key-1 BASE64 NAME". NAME.key: one line, "dl-secret-1 BASE64 NAME", mode
 * 0600; one that others can read is refused with the remedy. A trailing newline, CRLF or none are
 * all accepted. NAME is [A-Za-z0-9._-]{1,64}, not starting with '.' or '-'. The name in the line
 * counts, so a key file may be moved and renamed.
 *
 * The signing key: `path` (option -k), else $DL_KEY, else CONFIG/default.key, made on first use
 * (atomically: two programs starting together agree on one) and named after the host. CONFIG is
 * $XDG_CONFIG_HOME/dl, else $HOME/.config/dl. An empty variable counts as none.
 */
#ifndef KEY_H
#define KEY_H

#include "base/buf.h"
#include "base/err.h"
#include "base/say.h"
#include "form/sig.h"

#define KEY_NAME 64

struct key_pub {
	struct sig_public pub;
	char name[KEY_NAME + 1];
};
struct key {
	struct sig_secret secret;
	char name[KEY_NAME + 1];
};

/* 0 or ERR_USAGE: names of keys, learners, runs. `what` is the noun for the message. */
int key_name_check(const char *what, const char *name) ERR_MUST;
/* Where CONFIG is, there or not; ERR_IO when the environment does not say. */
int key_config_path(struct buf *out) ERR_MUST;

/* Writes STEM.key and STEM.pub, named by the last part of STEM; never over an existing file. What was
 * made is noted through `say`, here and below. */
int key_generate(const char *stem, struct say *say) ERR_MUST;
/* CONFIG/default.key and .pub: 0 made now, 1 there already. */
int key_generate_default(struct say *say) ERR_MUST;
/* The same in place of one that is there, which stays as default.old-FINGERPRINT8.key and .pub. */
int key_replace_default(struct say *say) ERR_MUST;
int key_load(struct key *k, const char *path) ERR_MUST;
/* 1 and the key that path, $DL_KEY or CONFIG/default.key holds; 0 when none is named and no default is
 * there. A default.pub that is missing, or is of another key, is written again if it can be. */
int key_have(struct key *k, const char *path) ERR_MUST;
/* Made if need be. What signs asks trust_signer. */
int key_find(struct key *k, const char *path, struct say *say) ERR_MUST;
/* Public keys, one a line, blank lines and those that start with '#' passed over; at least one.
 * The caller frees *v. */
int key_load_pubs(struct key_pub **v, size_t *n, const char *path) ERR_MUST;
int key_load_pub(struct key_pub *p, const char *path) ERR_MUST; /* exactly one */
/* Before anything is written to `output` (NULL and "-": standard output): ERR_USAGE when that would replace the signing
 * key, found as above, which may be the only copy. */
int key_apart(const char *path, const char *output) ERR_MUST;
void key_public(struct key_pub *p, const struct key *k);

/* One line of text with or without its end; n may count NULs, which are refused. */
int key_parse(struct key *k, const char *line, size_t n) ERR_MUST;
int key_pub_parse(struct key_pub *p, const char *line, size_t n) ERR_MUST;
int key_pub_text(const struct key_pub *p, struct buf *out) ERR_MUST; /* the one line, with its end */
void key_wipe(struct key *k);

#endif
