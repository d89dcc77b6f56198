/*
 * board - a view of a run as one screen of text, or as one JSON object.
 */
#ifndef BOARD_H
#define BOARD_H

#include "base/buf.h"
#include "round/view.h"

struct board_conf {
	const char *run;    /* as the user calls it */
	int columns, rows;  /* room there is; at least 40 and 10 are used; rows 0: as many as it takes */
	uint64_t disk;      /* bytes of the run */
	bool disk_more;     /* and more: not all files were counted */
};

/* Lines of plain text, none longer than conf->columns. */
int board_text(struct buf *out, const struct view *v, const struct board_conf *conf) ERR_MUST;
/* One line. */
int board_json(struct buf *out, const struct view *v, const struct board_conf *conf) ERR_MUST;

#endif
