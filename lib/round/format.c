#include "round/format.h"

#include <stdio.h>
#include <string.h>

#include "base/say.h"
#include "round/ggufexport.h"
#include "round/hfexport.h"
#include "round/hfimport.h"
#include "round/tensorexport.h"
#include "round/tensorimport.h"

static const struct format formats[] = {
	{ "gguf", NULL, ggufexport },
	{ "hf", hfimport, hfexport },
	{ "safetensors", tensorimport, tensorexport },
};

const struct format *format_find(const char *name)
{
	for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
		if (strcmp(formats[i].name, name) == 0)
			return &formats[i];
	return NULL;
}

static bool knows(size_t i, bool write)
{
	return write ? formats[i].write != NULL : formats[i].read != NULL;
}

int format_unknown(const char *name, bool write)
{
	char list[80] = "", shown[80];
	size_t left = 0, n = 0;

	for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
		left += knows(i, write);
	for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
		if (knows(i, write))
			n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", formats[i].name,
				--left > 1 ? ", " : left ? " or " : "");
	say_escape(shown, sizeof shown, name);
	return err_set(ERR_USAGE, "option --format: '%s' is not %s", shown, list);
}
