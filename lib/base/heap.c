#include "base/heap.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

void heap_keep(void)
{
#ifdef __GLIBC__
	(void)mallopt(M_MMAP_THRESHOLD, 32 << 20);
	(void)mallopt(M_TRIM_THRESHOLD, 128 << 20);
#endif
}
