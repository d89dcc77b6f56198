/* What a processor without AVX-512 does, on one that has it, too. */
#define GEMM_NO_AVX512
#include "../../lib/math/gemm.c"

#include "gemm_cases.h"

int main(void)
{
	test_gemm();
	return unit_done("gemm_avx2");
}
