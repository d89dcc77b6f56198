/*
 * manifest - what a run is: model and training, how it is merged, and who may take part.
 *
 * Sealed by the owner, whose key participants trust as they trust any (form/trust.h); the manifest
 * names everyone else. One of a higher serial replaces it at any time, without a restart. Its keys
 * beyond those of meta.h and the configuration (conf.*):
 *
 *     serial N          from 1
 *     nonce HEX         16 random bytes that the run id is also made of: no two runs are alike
 *     fragments P       interval H       overlap TAU      quorum K        invite N (0: all)
 *     grace GAMMA       rule rda|direct  outer_lr X       momentum X      outlier X (0: none)
 *     expert_weights tokens|routed       tokens where it is not there
 *     adopt overwrite|rebase|mix:A       delta f32r|f32|bf16
 *     target_steps N    target_tokens N  (0: none)        checkpoint_every N (global steps; 0: at the end)
 *     keep N            versions of each fragment that stay besides the newest, with their deltas; 0: all
 *     lease X           seconds without a sign of life after which a participant counts as lost
 *     member.0 ROLE BASE64 NAME          roles: learner, syncer, both
 *     revoked.0 BASE64 NAME
 *
 * `base` is the identity of the checkpoint that version 0 was taken from, if it was.
 */
#ifndef MANIFEST_H
#define MANIFEST_H

#include <stdbool.h>
#include <stdint.h>

#include "form/header.h"
#include "form/key.h"
#include "form/meta.h"
#include "form/trust.h"
#include "math/merge.h"
#include "math/model_conf.h"
#include "math/train_conf.h"

enum adopt { ADOPT_OVERWRITE, ADOPT_REBASE, ADOPT_MIX };
struct adopt_rule {
	enum adopt how;
	double mix; /* ADOPT_MIX: theta <- mix theta_local + (1 - mix) Theta */
};
int adopt_parse(const char *text, struct adopt_rule *out) ERR_MUST;
void adopt_text(char out[48], const struct adopt_rule *a);

#define MANIFEST_MEMBERS 3000 /* at most, the revoked ones too */

enum role { ROLE_LEARNER = 1, ROLE_SYNCER = 2 }; /* bits */
const char *role_name(unsigned roles); /* "learner", "syncer" or "both" */
int role_parse(const char *text, unsigned *roles) ERR_MUST;
struct member {
	struct key_pub key;
	unsigned roles;
	bool revoked;
};

struct manifest {
	struct meta meta; /* kind manifest: run, model, seed, label */
	struct model_conf model;
	struct train_conf train;
	struct tensors layout; /* of the model */
	struct sig_public owner;
	uint64_t serial;
	char nonce[33];
	digest seen; /* of the file it was read from or published in */
	/* how it is merged */
	unsigned fragments, overlap, quorum, invite;
	uint64_t interval;
	double grace, lease, outlier;
	enum merge_rule rule;
	enum merge_experts experts;
	struct merge_outer outer;
	struct adopt_rule adopt;
	enum encoding delta;
	uint64_t target_steps, target_tokens, checkpoint_every, keep;
	struct member *member; /* (members) without the owner, who may be anything */
	size_t members;
};
/* Defaults for all but meta, model, train, layout and owner: P 24 (or as many as there are tensors; layout
 * is asked), H 24, tau 2, K 1, gamma 1, rda, tokens, outer_lr 0.7, momentum 0.9, outlier 100, rebase, f32,
 * lease 30, keep 2. */
void manifest_defaults(struct manifest *m);
/* The run id of a manifest that is filled in but for it, with a new nonce. */
int manifest_identify(struct manifest *m) ERR_MUST;
void manifest_release(struct manifest *m);
/* Every value against its range and the others: ERR_DATA. */
int manifest_check(const struct manifest *m) ERR_MUST;

int manifest_write(const struct manifest *m, struct header *h) ERR_MUST;
/* Checks all; the table of tensors is made from the configuration. Fills an empty manifest. */
int manifest_read(struct manifest *m, const struct header *h, const struct sig_public *owner) ERR_MUST;

/* Reads RUN/manifest, the run directory being entered. ERR_AUTH when its signer is not trusted. */
int manifest_load(struct manifest *m, const struct trust *user) ERR_MUST;
/* The same again when the file has changed: 1 and *m replaced by one of the same run and owner with a
 * higher serial; 0 when it has not. Errors leave *m as it is: ERR_AUTH, told once, of one that is no newer. */
int manifest_refresh(struct manifest *m, const struct trust *user) ERR_MUST;
/* Publishes it, sealed by the owner's key, with serial one higher than m->serial. ERR_AUTH for any other
 * key. Who changes a manifest holds the lock of RUNDIR_MANIFEST (io/lock) from manifest_load on. */
int manifest_publish(struct manifest *m, const struct key *owner) ERR_MUST;

/*
 * Whose seals count for a role: owner, and members that have it and are revoked neither here nor by the
 * user. own: this program's key, NULL for none; ERR_AUTH when it is not among them, with the command
 * that admits it. *t is empty before; trust_release after.
 */
int manifest_trust(const struct manifest *m, enum role role, const struct trust *user,
	const struct key *own, struct trust *t) ERR_MUST;

/* Appends one, whoever it is: for who reads a manifest, or has looked at the others. */
int manifest_add_member(struct manifest *m, const struct member *member) ERR_MUST;
/* 0, or 1 when that changes nothing. A name belongs to one key (a new one may take that of a revoked
 * one), a key has one name; a revoked key stays out. Roles are replaced. */
int manifest_admit(struct manifest *m, const struct key_pub *key, unsigned roles) ERR_MUST;
/* 0, or 1 when it is revoked already. */
int manifest_revoke(struct manifest *m, const char *name_or_fingerprint) ERR_MUST;
/* The member, not revoked, of this name, or NULL: its key alone may be learner NAME. */
const struct member *manifest_member(const struct manifest *m, const char *name);

#endif
