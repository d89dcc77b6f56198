#include "math/blas.h"

#include <cblas.h>

#ifdef REAL_DOUBLE
#define gemm cblas_dgemm
#else
#define gemm cblas_sgemm
#endif

void blas_init(void)
{
	openblas_set_num_threads(1);
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
