/* finite: what is no number is counted, and the first one named. */
#include "unit.h"

#include "base/finite.h"

int main(void)
{
	const float good[] = { 0, -1, 3e38f, 1e-45f }, bad[] = { 1, -INFINITY, 2, NAN };
	struct finite f = { 0 };

	finite_look(&f, good, 4);
	CHECK(finite_check(&f) == 0);
	finite_look(&f, bad, 4);
	finite_look(&f, bad, 4);
	CHECK(finite_check(&f) == ERR_DATA);
	CHECK_SAYS("4 of 12 values are not finite, the first is element 5, -inf");
	return unit_done("finite");
}
