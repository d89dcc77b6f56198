/*
 * reader - what the streaming and the seekable half of frame.h share. Private to them.
 */
#ifndef READER_H
#define READER_H

#include "form/gang.h"
#include "form/ledger.h"

struct frame_reader {
	int fd;
	char *name;
	struct sig_public signer;
	struct header header;
	bool headed; /* all of it has been read */
	struct ledger ledger; /* header frames, then index frames as they come */
	uint64_t bytes;       /* read and verified so far, or the size of the file */
	bool identified;
	digest id;

	/* streaming */
	struct gang gang;
	/* see step_together; without a pool only the last counts */
	struct batch *loaded, *hashed, *opened;
	int next; /* of the opened blocks, to be handed out */
	struct chain chain;
	uint64_t number, offset; /* of the next frame to load */
	bool final;              /* there is none */
	struct progress at;
	bool ended;          /* all is read and the end verified */
	struct sig_hash entries; /* of the index as it should be */
	struct sig_hash index;   /* and as it is */
	struct err_note pending; /* what ended loading early */
	struct err_note failure; /* what the last call ended with, and every further one will */

	/* seekable: the data frames, and where the ones of tensor t begin: slice_of[t] to
	 * slice_of[t + 1] */
	struct entry *entry;
	uint64_t *slice_of;
	digest *sealed; /* C of each data frame, when seals are to be checked; else NULL */
};

/* Marks an error with frame number and file name. */
int reader_error(const struct frame_reader *r, int code, uint64_t number);

#endif
