/*
 * format - the formats of others that dl-import reads and dl-export writes.
 *
 * A new one plugs in by one line in format.c: what import.h and export.h ask of a format.
 */
#ifndef FORMAT_H
#define FORMAT_H

#include <stdbool.h>

#include "round/export.h"
#include "round/import.h"

struct format {
	const char *name;
	import_reader *read;  /* NULL: it is only written */
	export_writer *write;
};
/* NULL when there is none of this name. */
const struct format *format_find(const char *name);

/* ERR_USAGE that lists them: which can be read, or written. */
int format_unknown(const char *name, bool write) ERR_MUST;

#endif
