#include "round/epoch.h"

#include "small_rundir.h"

int main(void)
{
	static struct small_rundir d;
	struct epoch e, again;
	const char *run;

	small_rundir_make(&d);
	run = d.manifest.meta.run;
	CHECK(epoch_newest(&e, 0, run, &d.base.trust) == 0 && e.number == 0);
	CHECK(epoch_take(&e, 0, run, &d.base.key, &d.base.trust) == 0 && e.number == 1);
	CHECK(epoch_is_here(&e) == (e.boot[0] != '\0'));
	CHECK(epoch_check(1, run, &d.base.trust) == 0);
	CHECK(epoch_take(&again, 0, run, &d.base.key, &d.base.trust) == 1); /* who comes later */
	CHECK(epoch_read(&again, 1, run, &d.base.trust) == 1);
	CHECK_STR(again.nonce, e.nonce);

	/* Junk, and what no trusted key sealed, is passed over. */
	CHECK(place_put("syncer/epoch.2", "junk", 4, true) == 0);
	CHECK(epoch_check(1, run, &d.base.trust) == 0);
	CHECK(epoch_take(&e, 1, run, &d.base.key, &d.base.trust) == 0 && e.number == 3);
	CHECK(epoch_check(1, run, &(struct trust){ .v = NULL }) == 0);
	CHECK(epoch_check(1, run, &d.base.trust) == ERR_BUSY);
	CHECK_SAYS("superseded by the syncer of epoch 3");
	CHECK(epoch_check(3, run, &d.base.trust) == 0);
	CHECK(epoch_newest(&e, 0, run, &d.base.trust) == 0 && e.number == 3);
	CHECK(epoch_newest(&e, 1, run, &d.base.trust) == 0 && e.number == 3);
	CHECK(epoch_read(&e, 3, "00000000000000000000000000000000", &d.base.trust) == 0); /* another run's */
	e = (struct epoch){ .boot = "0123456789abcdef0123456789abcdef" };
	CHECK(!epoch_is_here(&e));
	small_rundir_remove(&d);
	return unit_done("epoch");
}
