/* What this processor does. */
#include "math/gemm.h"

#include "gemm_cases.h"

int main(void)
{
	test_gemm();
	return unit_done("gemm");
}
