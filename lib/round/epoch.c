#include "round/epoch.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "form/card.h"
#include "form/meta.h"
#include "io/fd.h"
#include "io/place.h"
#include "round/rundir.h"

#define PASSED_OVER 1000 /* numbers in a row that junk may take */

/* 32 hex digits that are the same for all processes of a machine until it is started anew. */
static void this_boot(char out[33])
{
	char text[64];
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : fd_read(fd, text, sizeof text);
	size_t k = 0;

	if (fd >= 0)
		close(fd);
	for (ssize_t i = 0; i < n && k < 32; i++)
		if (strchr("0123456789abcdef", text[i]))
			out[k++] = text[i];
	out[k == 32 ? k : 0] = '\0';
}

bool epoch_is_here(const struct epoch *e)
{
	char here[33];

	this_boot(here);
	return here[0] && strcmp(here, e->boot) == 0;
}

/* ---- files ---- */

static void copy_key(char *to, size_t n, const struct header *h, const char *key)
{
	const char *text = conf_get(&h->keys, key);

	to[0] = '\0';
	if (text && strlen(text) < n)
		memcpy(to, text, strlen(text) + 1);
}

static int parse(struct epoch *e, const struct header *h, uint64_t number, const char *run)
{
	struct meta m;
	int rc = meta_read(&m, h);

	if (rc == 0)
		rc = meta_want(&m, KIND_EPOCH);
	if (rc == 0 && (m.epoch != number || strcmp(m.run, run) != 0))
		rc = err_set(ERR_AUTH, "of another epoch or run");
	e->number = number;
	copy_key(e->nonce, sizeof e->nonce, h, "nonce");
	copy_key(e->boot, sizeof e->boot, h, "boot");
	return rc;
}

int epoch_read(struct epoch *e, uint64_t number, const char *run, const struct trust *makers)
{
	struct header h = { .keys = { 0 } };
	char path[RUNDIR_PATH];
	int rc;

	*e = (struct epoch){ .number = 0 };
	rc = card_read(&h, &e->signer, rundir_epoch(path, number), makers);
	if (rc > 0)
		rc = parse(e, &h, number, run);
	else if (rc == 0)
		rc = ERR_AGAIN;
	header_release(&h);
	if (rc == 0)
		return 1;
	return rc == ERR_IO || rc == ERR_NOMEM ? rc : 0;
}

/* The next one above: 1, or 0 when there is none. */
static int next_epoch(struct epoch *e, uint64_t above, const char *run, const struct trust *makers,
	uint64_t *free)
{
	char path[RUNDIR_PATH];
	int rc;

	for (*free = above + 1; *free <= above + PASSED_OVER; ++*free) {
		if ((rc = epoch_read(e, *free, run, makers)) != 0)
			return rc;
		if (access(rundir_epoch(path, *free), F_OK) < 0)
			return 0;
	}
	return err_set(ERR_DATA, "syncer/: %d files in a row from epoch.%" PRIu64
		" on are of no trusted syncer: remove them", PASSED_OVER, above + 1);
}

int epoch_newest(struct epoch *e, uint64_t from, const char *run, const struct trust *makers)
{
	struct epoch next;
	uint64_t free;
	int rc = from ? epoch_read(e, from, run, makers) : 0;

	if (rc < 0)
		return rc;
	if (rc == 0)
		*e = (struct epoch){ .number = from };
	while ((rc = next_epoch(&next, e->number, run, makers, &free)) > 0)
		*e = next;
	return rc;
}

int epoch_check(uint64_t mine, const char *run, const struct trust *makers)
{
	struct epoch next;
	uint64_t free;
	int rc = next_epoch(&next, mine, run, makers, &free);

	if (rc <= 0)
		return rc;
	return err_set(ERR_BUSY, "superseded by the syncer of epoch %" PRIu64, next.number);
}

static int write_header(struct header *h, struct epoch *e, const char *run)
{
	struct meta m = { .kind = KIND_EPOCH, .epoch = e->number };
	uint8_t nonce[8];
	int rc;

	if (getrandom(nonce, sizeof nonce, 0) != sizeof nonce)
		return err_sys("getrandom");
	sig_hex(e->nonce, nonce, sizeof nonce);
	this_boot(e->boot);
	memcpy(m.run, run, strlen(run) + 1);
	if ((rc = meta_write(&m, h)) == 0)
		rc = conf_set(&h->keys, "nonce", e->nonce);
	if (rc == 0 && e->boot[0])
		rc = conf_set(&h->keys, "boot", e->boot);
	return rc;
}

static int publish(const char *path, const struct buf *bytes)
{
	struct atomic a;
	int rc = place_create(&a, path);

	if (rc < 0)
		return rc;
	if ((rc = fd_write(a.fd, bytes->data, bytes->len)) == 0)
		return atomic_commit_new(&a);
	atomic_abort(&a);
	return err_at(rc, "%s", path);
}

int epoch_take(struct epoch *e, uint64_t after, const char *run, const struct key *key,
	const struct trust *makers)
{
	struct header h = { .keys = { 0 } };
	struct buf bytes = BUF_INIT;
	char path[RUNDIR_PATH];
	struct epoch next;
	uint64_t free;
	int rc = next_epoch(&next, after, run, makers, &free);

	if (rc != 0)
		return rc;
	*e = (struct epoch){ .number = free, .signer = key->secret.pub };
	rc = write_header(&h, e, run);
	if (rc == 0)
		rc = card_seal(&bytes, &h, &key->secret, NULL);
	if (rc == 0 && (rc = place_make(rundir_epoch(path, free))) == 0)
		rc = publish(path, &bytes);
	header_release(&h);
	buf_release(&bytes);
	return rc;
}
