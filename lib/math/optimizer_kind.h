/*
 * optimizer_kind - which inner optimizer, and its name. Apart from optimizer.h so that programs which only read
 * configurations need no arithmetic.
 */
#ifndef OPTIMIZER_KIND_H
#define OPTIMIZER_KIND_H

#include "base/err.h"

enum optimizer_kind { OPTIMIZER_ADAMW, OPTIMIZER_MUON };

const char *optimizer_kind_name(enum optimizer_kind kind); /* "adamw", "muon" */
int optimizer_kind_parse(const char *text, enum optimizer_kind *out) ERR_MUST; /* ERR_DATA */

#endif
