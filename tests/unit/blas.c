/* OpenBLAS's own products, and the room that it wants. */
#include <sys/resource.h>

#include "math/blas.h"
#include "product_cases.h"

static void any_product(enum kind kind, real *c, const real *a, const real *b, int m, int n, int k, bool add)
{
	if (kind == NT)
		blas_nt(c, a, b, m, n, k, add);
	else if (kind == NN)
		blas_nn(c, a, b, m, n, k, add);
	else
		blas_tn(c, a, b, m, n, k, add);
}

static void room_is_known_before_it_is_taken(void)
{
	struct rlimit before, little;

	CHECK(blas_room(2) == 0);
	CHECK(getrlimit(RLIMIT_AS, &before) == 0);
	little = before;
	little.rlim_cur = 1 << 20; /* less than there is: no mapping any more */
	CHECK(setrlimit(RLIMIT_AS, &little) == 0);
	CHECK(blas_room(1) == ERR_NOMEM);
	CHECK(setrlimit(RLIMIT_AS, &before) == 0);
	CHECK(blas_room(2) == 0);
}

int main(void)
{
	blas_init();
	room_is_known_before_it_is_taken();
	test_products();
	return unit_done("blas");
}
