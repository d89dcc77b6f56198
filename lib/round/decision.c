#include "round/decision.h"

#include <stdlib.h>
#include <string.h>

#include "round/rundir.h"

static int parse_answers(struct decision *d, const char *text)
{
	size_t room = 1;
	int rc;

	for (const char *p = text; *p; p++)
		room += *p == ',';
	d->answer = calloc(room, sizeof *d->answer);
	if (!d->answer)
		return err_nomem();
	while ((rc = tape_answer_next(&d->answer[d->answers], &text)) > 0)
		d->answers++;
	return rc;
}

static int parse_names(struct decision *d, const struct tape_line *l)
{
	const char *merge = tape_text(l, "merge"), *experts = tape_text(l, "expert_weights");
	int rc;

	if ((rc = rundir_fragment_parse(tape_text(l, "fragment"), &d->fragment)) < 0 ||
		(rc = tape_id(l, "base", &d->base)) < 0 ||
		(rc = merge_rule_parse(tape_text(l, "rule"), &d->rule)) < 0)
		return rc == ERR_USAGE ? ERR_DATA : rc;
	if (*experts && (rc = merge_experts_parse(experts, &d->experts)) < 0)
		return rc;
	if (strlen(merge) != sizeof d->merge - 1)
		return err_set(ERR_DATA, "'merge' is not a digest");
	memcpy(d->merge, merge, sizeof d->merge);
	return 0;
}

int decision_parse(struct decision *d, const struct tape_line *l)
{
	int rc;

	*d = (struct decision){ .round = tape_u64(l, "round"), .version = tape_u64(l, "version"),
		.step = tape_u64(l, "step"), .tokens = tape_u64(l, "tokens"),
		.outer = { tape_f64(l, "outer_lr"), tape_f64(l, "momentum") },
		.fresh = strcmp(tape_text(l, "prior"), "none") == 0 };
	if ((rc = parse_names(d, l)) == 0)
		rc = parse_answers(d, tape_text(l, "answers"));
	if (rc == 0 && (d->version == 0 || d->answers == 0))
		rc = err_set(ERR_DATA, "no version, or no answers");
	if (rc < 0)
		decision_release(d);
	return rc;
}

void decision_release(struct decision *d)
{
	free(d->answer);
	*d = (struct decision){ .round = 0 };
}
