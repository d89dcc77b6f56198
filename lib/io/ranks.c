#include "io/ranks.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/pool.h"

/* Built without MPI, nobody gets one. */
struct ranks {
	int self, n, here;
	int (*stop)(void);
	struct clock clock;
	bool lost; /* a transfer was given up */
	void *room; /* SUM_PIECE bytes, and one element more for each rank */
	int *at, *parts, *own_at, *own; /* (n) each: see lay_out */
};

/* Variables that launchers set for each process: Open MPI's, MPICH's and Slurm's with PMI. */
static int launched(void)
{
	static const char *const sizes[] = { "OMPI_COMM_WORLD_SIZE", "PMI_SIZE" };

	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		const char *n = getenv(sizes[i]);

		if (n && *n && (n[0] != '1' || n[1] != '\0'))
			return 1;
	}
	return 0;
}

#ifdef WITH_MPI

#include <mpi.h>
#include <time.h>

#define PIECE ((size_t)1 << 26) /* of a transfer, whose counts are ints */
#define SUM_PIECE ((size_t)1 << 24) /* bytes of a sum at a time */
#define PAUSE 20000             /* nanoseconds between looks: ranks may share a processor */
#define SPINS 2000              /* looks before the first pause */
#define GIVE_UP 0.3             /* seconds after a request to stop; Open MPI kills a second after it */

static int failed(const char *call, int code)
{
	char text[MPI_MAX_ERROR_STRING] = "";
	int n = 0;

	MPI_Error_string(code, text, &n);
	return err_set(ERR_IO, "%s: %s", call, text);
}

static int count_here(struct ranks *r)
{
	MPI_Comm here;
	int rc = MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here);

	if (rc != MPI_SUCCESS)
		return failed("MPI_Comm_split_type", rc);
	MPI_Comm_size(here, &r->here);
	MPI_Comm_free(&here);
	return 0;
}

static int start(struct ranks *r)
{
	int level, rc = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);

	if (rc != MPI_SUCCESS)
		return err_set(ERR_IO, "MPI does not start: is this process one of mpirun's?");
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_rank(MPI_COMM_WORLD, &r->self);
	MPI_Comm_size(MPI_COMM_WORLD, &r->n);
	r->room = malloc(SUM_PIECE + (size_t)r->n * sizeof(double));
	r->at = calloc(4 * (size_t)r->n, sizeof *r->at);
	if (!r->room || !r->at)
		return err_nomem();
	r->parts = r->at + r->n;
	r->own_at = r->parts + r->n;
	r->own = r->own_at + r->n;
	return count_here(r);
}

static void release(struct ranks *r)
{
	free(r->room);
	free(r->at);
	free(r);
}

int ranks_open(struct ranks **out, int (*stop)(void))
{
	struct ranks *r;
	int rc;

	*out = NULL;
	if (!launched())
		return 0;
	r = calloc(1, sizeof *r);
	if (!r)
		return err_nomem();
	r->stop = stop;
	r->clock = clock_monotonic();
	if ((rc = start(r)) < 0) {
		release(r);
		return rc;
	}
	*out = r;
	return 0;
}

/* With a rank lost, MPI would wait for it once more. */
void ranks_close(struct ranks *r, bool well)
{
	if (!r)
		return;
	if (well && !r->lost)
		MPI_Finalize();
	release(r);
}

static int give_up(struct ranks *r)
{
	r->lost = true;
	return err_set(ERR_IO, "asked to stop while other ranks had not finished the step: one may have died");
}

/* MPI would wait at full speed and deaf to signals. */
static int finish(struct ranks *r, MPI_Request *request)
{
	const struct timespec pause = { 0, PAUSE };
	double asked = -1;
	int done = 0, rc;

	for (long spins = 0;; spins++) {
		if ((rc = MPI_Test(request, &done, MPI_STATUS_IGNORE)) != MPI_SUCCESS)
			return failed("MPI_Test", rc);
		if (done)
			return 0;
		if (spins < SPINS)
			continue;
		nanosleep(&pause, NULL);
		if (r->self > 0 || !r->stop || !r->stop())
			continue;
		if (asked < 0)
			asked = clock_now(&r->clock);
		if (clock_now(&r->clock) - asked > GIVE_UP)
			return give_up(r);
	}
}

int ranks_give(struct ranks *r, void *data, size_t bytes)
{
	char *at = data;

	for (size_t done = 0; done < bytes;) {
		const size_t n = bytes - done < PIECE ? bytes - done : PIECE;
		MPI_Request request;
		int rc = MPI_Ibcast(at + done, (int)n, MPI_BYTE, 0, MPI_COMM_WORLD, &request);

		if (rc != MPI_SUCCESS)
			return failed("MPI_Ibcast", rc);
		if ((rc = finish(r, &request)) < 0)
			return rc;
		done += n;
	}
	return 0;
}

/* ---- sums: each rank adds up one part of a piece, in the order of ranks, and the first gathers them ---- */

/* Elements before part i of a piece of n. */
static size_t before(const struct ranks *r, size_t n, int i)
{
	return n * (size_t)i / (size_t)r->n;
}

/* What goes to and comes from each rank, and where that lies, in elements. */
static void lay_out(struct ranks *r, size_t n)
{
	const size_t own = before(r, n, r->self + 1) - before(r, n, r->self);

	for (int i = 0; i < r->n; i++) {
		r->at[i] = (int)before(r, n, i);
		r->parts[i] = (int)(before(r, n, i + 1) - before(r, n, i));
		r->own_at[i] = (int)(own * (size_t)i);
		r->own[i] = (int)own;
	}
}

static void add_f32(float *restrict x, const float *restrict part, size_t own, int n)
{
	memcpy(x, part, own * sizeof *x);
	for (int k = 1; k < n; k++)
		for (size_t i = 0; i < own; i++)
			x[i] += part[(size_t)k * own + i];
}

static void add_f64(double *restrict x, const double *restrict part, size_t own, int n)
{
	memcpy(x, part, own * sizeof *x);
	for (int k = 1; k < n; k++)
		for (size_t i = 0; i < own; i++)
			x[i] += part[(size_t)k * own + i];
}

static int sum_piece(struct ranks *r, char *x, size_t n, MPI_Datatype type, size_t size)
{
	MPI_Request request;
	char *mine;
	int rc;

	lay_out(r, n);
	mine = x + (size_t)r->at[r->self] * size;
	rc = MPI_Ialltoallv(x, r->parts, r->at, type, r->room, r->own, r->own_at, type, MPI_COMM_WORLD, &request);
	if (rc != MPI_SUCCESS)
		return failed("MPI_Ialltoallv", rc);
	if ((rc = finish(r, &request)) < 0)
		return rc;
	if (type == MPI_FLOAT)
		add_f32((float *)(void *)mine, r->room, (size_t)r->own[0], r->n);
	else
		add_f64((double *)(void *)mine, r->room, (size_t)r->own[0], r->n);
	rc = MPI_Igatherv(r->self == 0 ? MPI_IN_PLACE : mine, r->own[0], type, x, r->parts, r->at, type, 0,
		MPI_COMM_WORLD, &request);
	return rc == MPI_SUCCESS ? finish(r, &request) : failed("MPI_Igatherv", rc);
}

static int sum(struct ranks *r, void *x, size_t n, MPI_Datatype type, size_t size)
{
	char *at = x;
	int rc;

	for (size_t done = 0, some; done < n; done += some) {
		some = n - done < SUM_PIECE / size ? n - done : SUM_PIECE / size;
		if ((rc = sum_piece(r, at + done * size, some, type, size)) < 0)
			return rc;
	}
	return 0;
}

int ranks_sum(struct ranks *r, float *x, size_t n)
{
	return sum(r, x, n, MPI_FLOAT, sizeof *x);
}

int ranks_sum_f64(struct ranks *r, double *x, size_t n)
{
	return sum(r, x, n, MPI_DOUBLE, sizeof *x);
}

#else

int ranks_open(struct ranks **out, int (*stop)(void))
{
	(void)stop;
	*out = NULL;
	if (launched())
		return err_set(ERR_USAGE, "started as one of several ranks, but built without MPI: install its "
			"headers (libopenmpi-dev) and build again");
	return 0;
}

void ranks_close(struct ranks *r, bool well)
{
	(void)r, (void)well;
}

static int alone(void)
{
	return err_set(ERR_USAGE, "there is one rank only");
}

int ranks_give(struct ranks *r, void *data, size_t bytes)
{
	(void)r, (void)data, (void)bytes;
	return alone();
}

int ranks_sum(struct ranks *r, float *x, size_t n)
{
	(void)r, (void)x, (void)n;
	return alone();
}

int ranks_sum_f64(struct ranks *r, double *x, size_t n)
{
	(void)r, (void)x, (void)n;
	return alone();
}

#endif

int ranks_self(const struct ranks *r)
{
	return r ? r->self : 0;
}

int ranks_count(const struct ranks *r)
{
	return r ? r->n : 1;
}

int ranks_threads(const struct ranks *r)
{
	const int cpus = pool_cpus(), share = cpus / (r ? r->here : 1);

	if (cpus < sysconf(_SC_NPROCESSORS_ONLN))
		return cpus;
	return share > 0 ? share : 1;
}
