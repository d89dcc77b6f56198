#include "chaos/agenda.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

int agenda_init(struct agenda *a, size_t n)
{
	*a = (struct agenda){ .n = n };
	a->time = calloc(n, sizeof *a->time);
	a->heap = calloc(n, sizeof *a->heap);
	a->place = calloc(n, sizeof *a->place);
	if (!a->time || !a->heap || !a->place)
		return err_nomem();
	for (size_t i = 0; i < n; i++) {
		a->time[i] = HUGE_VAL;
		a->heap[i] = a->place[i] = (unsigned)i;
	}
	return 0;
}

void agenda_release(struct agenda *a)
{
	free(a->time);
	free(a->heap);
	free(a->place);
	*a = (struct agenda){ 0 };
}

static bool before(const struct agenda *a, unsigned x, unsigned y)
{
	return a->time[x] < a->time[y] || (a->time[x] == a->time[y] && x < y);
}

static void put(struct agenda *a, size_t at, unsigned actor)
{
	a->heap[at] = actor;
	a->place[actor] = (unsigned)at;
}

static size_t rise(struct agenda *a, size_t at, unsigned actor)
{
	while (at > 0 && before(a, actor, a->heap[(at - 1) / 2])) {
		put(a, at, a->heap[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	return at;
}

static size_t sink(struct agenda *a, size_t at, unsigned actor)
{
	size_t child;

	while ((child = 2 * at + 1) < a->n) {
		if (child + 1 < a->n && before(a, a->heap[child + 1], a->heap[child]))
			child++;
		if (!before(a, a->heap[child], actor))
			break;
		put(a, at, a->heap[child]);
		at = child;
	}
	return at;
}

void agenda_set(struct agenda *a, unsigned actor, double time)
{
	size_t at = a->place[actor];
	bool earlier = time < a->time[actor];

	a->time[actor] = time;
	put(a, earlier ? rise(a, at, actor) : sink(a, at, actor), actor);
}

unsigned agenda_first(const struct agenda *a)
{
	return a->heap[0];
}
