/*
 * sim_inside - a simulation under way; for the modules of sim.h only.
 *
 * Actors of the agenda: learner i is i, M + i is the wire on which its answers arrive, and the syncer is 2 M:
 * the last, so that it knows of all that comes at the moment in which it looks.
 */
#ifndef SIM_INSIDE_H
#define SIM_INSIDE_H

#include "chaos/agenda.h"
#include "chaos/sim.h"
#include "chaos/slices.h"
#include "round/policy.h"

enum sim_phase {
	SIM_AWAY,     /* not there yet, or gone */
	SIM_TRAINING, /* in a step, until `until` */
	SIM_STOPPED,  /* until `until` */
	SIM_DEAD,     /* no slice is left */
	SIM_WAITING   /* for the others (diloco) */
};
struct sim_part { /* a fragment of a learner */
	uint64_t version;
	uint64_t at;         /* its steps and tokens when the base was taken, or the last snapshot */
	double tokens_at;
	uint64_t answered;   /* the last round it answered, */
	double given;        /* with so many tokens, */
	uint64_t counted;    /* the last round whose merge has its answer */
	bool out, snap;      /* an answer is out that its base does not hold; and its snapshot is in memory */
	bool again;          /* its answer was lost on its way: it may give another one */
};
struct sim_letter { /* an answer under way */
	double at;
	uint64_t round;
};
struct sim_learner {
	struct slices slices;
	enum sim_phase phase;
	double from, leaves, came;  /* joins, leaves; has come at */
	double began, until, speed;
	bool known, reviving, want_up; /* want_up: at the next boundary, a slice that is back comes in */
	uint64_t draws, steps;
	double tokens, beat_at;
	struct sim_part *part;      /* (P) */
	double up_free, down_free;  /* its link is */
	double linked, sent, received; /* since when the link is in use; bytes given to it since, moved or not */
	size_t cursor;              /* next publication to look at */
	bool fetching;
	size_t fetched;             /* publication that is being fetched, until */
	double fetched_at;
	struct sim_letter *letter;  /* ring (letters_room) */
	size_t letters, first_letter, letters_room;
	uint64_t mark;              /* diloco: its steps at the last merge */
};
struct sim_publication {
	double at;
	uint64_t round, version;
	unsigned fragment;
};
struct sim_call {
	double published, ended;    /* ended: HUGE_VAL while it is open */
	uint64_t round, version;
	unsigned fragment;
	unsigned char *invited;     /* (M); NULL: all */
};
struct sim {
	const struct sim_conf *c;
	struct trace_writer *trace;
	struct agenda agenda;
	double now;
	unsigned n, fragments;      /* learners, P */
	double step_tokens;
	struct sim_learner *learner;
	uint64_t *since;            /* (P) scratch of a beat */

	/* syncer */
	struct policy *policy;
	uint64_t *version;          /* (P) newest */
	double *published;          /* (P) when */
	uint64_t *made;             /* (P) by which round */
	struct sim_publication *log;
	size_t logged, log_room;
	struct sim_call *call;      /* (P) the last of each fragment */
	unsigned *seen, seens;      /* fragments whose call a learner may see */
	bool merging;
	double looks;               /* hears nothing before: it is merging, or does not look yet */
	struct policy_step deed;    /* being merged */
	unsigned *who;              /* (n) scratch: whose answers */
	size_t whos;
	uint64_t round;             /* diloco */

	/* accounts */
	unsigned training;
	double up, up_from;
	double productive, allotted, present; /* chip seconds; learner seconds */
	double merged;              /* tokens x fragments */
	double sent, received;      /* bytes, by learners: what their links have moved */
	double stale;
	uint64_t stales, merges, answers, late, failures, stops, steps;
	double budget_at;
};

/* Events go to the trace, if there is one, at s->now. */
int sim_tell(struct sim *s, struct trace_event e) ERR_MUST;

static inline unsigned sim_syncer(const struct sim *s)
{
	return 2 * s->n;
}

/* ---- sim_learner ---- */
int sim_learner_open(struct sim *s, unsigned i) ERR_MUST;
void sim_learner_close(struct sim_learner *l);
/* What it does at s->now, which is when it said. */
int sim_learner_act(struct sim *s, unsigned i) ERR_MUST;
void sim_learner_plan(struct sim *s, unsigned i);         /* when it acts next, into the agenda */
/* diloco: begins the next step. */
void sim_learner_go(struct sim *s, unsigned i);
void sim_learner_training(struct sim *s, bool more);      /* one more learner trains, or one less */
void sim_learner_leave(struct sim *s, unsigned i);        /* its account is closed */

/* ---- sim_wire: what a learner does at a boundary of its steps in mode decoupled ---- */
int sim_wire_boundary(struct sim *s, unsigned i) ERR_MUST;
int sim_wire_beat(struct sim *s, unsigned i, bool gone) ERR_MUST;
void sim_wire_newest(struct sim *s, unsigned i);          /* takes the newest version of all fragments */
void sim_wire_restart(struct sim *s, unsigned i);         /* its process began again, from what it had saved */
void sim_wire_account(struct sim *s, unsigned i);         /* what its link has moved by now, once */
void sim_wire_drop(struct sim *s, unsigned i);            /* its answers under way are lost */
int sim_wire_arrive(struct sim *s, unsigned i) ERR_MUST;  /* an answer of it is there */

/* ---- sim_syncer: rounds by the policy ---- */
int sim_syncer_open(struct sim *s) ERR_MUST;
void sim_syncer_close(struct sim *s);
int sim_syncer_act(struct sim *s) ERR_MUST;

/* ---- sim_barrier: the rounds of mode diloco ---- */
int sim_barrier_reached(struct sim *s, unsigned i) ERR_MUST; /* this learner waits from now on */
int sim_barrier_look(struct sim *s) ERR_MUST;                /* one less is waited for */
int sim_barrier_act(struct sim *s) ERR_MUST;
int sim_barrier_adopt(struct sim *s, unsigned i) ERR_MUST;   /* the newest version, if it has another */

#endif
