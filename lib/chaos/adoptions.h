/*
 * adoptions - which versions of fragments the learners of a trace will adopt, and how often: read from it
 * beforehand, so that whoever plays it knows what to keep and for how long.
 *
 * Memory: 4 bytes a version.
 */
#ifndef ADOPTIONS_H
#define ADOPTIONS_H

#include "chaos/trace.h"

struct adoptions {
	struct adoptions_fragment {
		uint32_t *left; /* (versions) adoptions of each that are still to come; owned */
		size_t versions;
	} *fragment; /* (fragments); owned */
	unsigned fragments;
};

/* Reads a trace from a seekable file to its end, and opens it again from its beginning. ERR_DATA: "line 17: ...".
 * After a failure, too, adoptions_release. */
int adoptions_scan(struct adoptions *a, struct trace_reader **out, int fd) ERR_MUST;
void adoptions_release(struct adoptions *a);
uint32_t adoptions_left(const struct adoptions *a, unsigned fragment, uint64_t version);
/* One of them is done. */
void adoptions_done(struct adoptions *a, unsigned fragment, uint64_t version);

#endif
