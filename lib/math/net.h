/*
 * net - the transformer over the few sequences that one thread works on at a time: activations,
 * forward, backward.
 *
 * A net owns activations only; parameters and gradients are flat arrays in the order of
 * model_layout, passed in. Nets of different threads share nothing. Sequences of a call have the
 * same length T and lie one after the other: all that is not attention sees one matrix of R = G * T
 * rows.
 */
#ifndef NET_H
#define NET_H

#include <stdint.h>

#include "base/err.h"
#include "math/model_conf.h"
#include "math/real.h"

struct net;
enum net_use {
	NET_FORWARD,
	NET_TRAIN, /* keeps what the backward pass needs */
	NET_RECOMPUTE, /* keeps what each layer was given, and computes the rest again in the backward pass */
	NET_EXTEND /* keeps the keys and values of one sequence, for net_extend */
};
/*
 * For sequences of up to `context` tokens. NET_RECOMPUTE gives the gradients of NET_TRAIN, bit for bit, for
 * about a third more time, and keeps d_model elements of a row and layer instead of some twenty times as many.
 */
int net_open(struct net **out, const struct model_conf *c, int context, enum net_use use) ERR_MUST;
void net_close(struct net *n);
/* Rows that a net takes at a time. */
int net_rows(int context);
/* Bytes that a net needs for calls of up to so many. */
size_t net_bytes(const struct model_conf *c, int context, enum net_use use, int rows);
/* Sequences of T tokens that fit into one call, at least 1. */
int net_fits(const struct net *n, int T);

/* ids: G sequences, the inputs of each T of them, `stride` apart. Leaves the final normalised
 * activations in the net. */
void net_forward(struct net *n, const real *params, const uint32_t *ids, int stride, int G, int T);
/*
 * With NET_EXTEND: as net_forward for T >= 1 more tokens of one sequence, `past` of which, at most
 * context - T, went through this function before, one after the other from 0 on; the activations are
 * those of the T.
 */
void net_extend(struct net *n, const real *params, const uint32_t *ids, int past, int T);
/*
 * After net_forward: losses (R) are -ln p of `targets`, T of each sequence. With grads, also the
 * gradient of scale * (their total): added to grads for the head, kept in the net for what is below
 * it.
 */
void net_loss(struct net *n, double *losses, real *grads, const real *params, const uint32_t *targets,
	int stride, real scale);
/* After net_loss with grads: adds to grads all the rest; with experts also the gradient of scale * T
 * * router_aux_loss_coef * the load-balancing loss, summed over sequences (moe.h). */
void net_backward(struct net *n, real *grads, const real *params, const uint32_t *ids, int stride);
/* Of the last net_forward with experts: adds to routed (layers, experts) the rows each got, and to
 * *balance the load-balancing loss summed over sequences, the mean of the layers. */
void net_load(const struct net *n, uint64_t *routed, double *balance);
/* After net_forward: logits (V) at row r. */
void net_logits(struct net *n, real *logits, const real *params, int r);

#endif
