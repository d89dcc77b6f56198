#include "round/format.h"

#include <string.h>

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
