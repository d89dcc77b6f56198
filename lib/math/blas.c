#include "math/blas.h"

#include <cblas.h>
#include <stddef.h>
#include <sys/mman.h>

#define BUFFER ((size_t)129 << 20) /* of a thread, with what aligning it may cost */

#ifdef REAL_DOUBLE
#define gemm cblas_dgemm
#else
#define gemm cblas_sgemm
#endif

void blas_init(void)
{
	openblas_set_num_threads(1);
}

/* Held all together before they are given back: a limit on addresses counts their sum. */
int blas_room(int threads)
{
	void *first = NULL, *at;
	int have = 0;

	for (; have < threads; have++, first = at) {
		at = mmap(NULL, BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (at == MAP_FAILED)
			break;
		*(void **)at = first;
	}
	for (int i = have; i > 0; i--, first = at) {
		at = *(void **)first;
		munmap(first, BUFFER);
	}
	return have == threads ? 0 : err_nomem();
}

/* BLAS wants a leading dimension of at least 1 and reads nothing of an empty matrix. */
static int stride(int n)
{
	return n > 0 ? n : 1;
}

void blas_nt(real *c, const real *a, const real *b, int m, int n, int k, real beta)
{
	gemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, n, k, 1, a, stride(k), b, stride(k), beta,
		c, stride(n));
}

void blas_nn(real *c, const real *a, const real *b, int m, int n, int k, real beta)
{
	gemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1, a, stride(k), b, stride(n),
		beta, c, stride(n));
}

void blas_tn(real *c, const real *a, const real *b, int m, int n, int k, real beta)
{
	gemm(CblasRowMajor, CblasTrans, CblasNoTrans, m, n, k, 1, a, stride(m), b, stride(n), beta,
		c, stride(n));
}
