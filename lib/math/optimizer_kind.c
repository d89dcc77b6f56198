#include "math/optimizer_kind.h"

#include <stddef.h>
#include <string.h>

static const char *const names[] = { "adamw", "muon" };

const char *optimizer_kind_name(enum optimizer_kind kind)
{
	return names[kind];
}

int optimizer_kind_parse(const char *text, enum optimizer_kind *out)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(text, names[i]) == 0) {
			*out = (enum optimizer_kind)i;
			return 0;
		}
	return err_set(ERR_DATA, "'%.64s' is not adamw or muon", text);
}
