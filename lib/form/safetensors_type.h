/*
 * safetensors_type - what both halves of safetensors.h know of the types. Private to them.
 */
#ifndef SAFETENSORS_TYPE_H
#define SAFETENSORS_TYPE_H

#include "form/safetensors.h"

#define SAFETENSORS_KINDS (SAFETENSORS_U32 + 1)

struct safetensors_kind {
	const char *name;
	size_t size; /* bytes of an element */
	enum dtype dtype;
	enum encoding enc; /* that keeps the values as they are */
};
extern const struct safetensors_kind safetensors_kinds[SAFETENSORS_KINDS];

#endif
