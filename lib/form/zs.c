#include "form/zs.h"

#include <zstd.h>

#include "base/bytes.h"

void zs_release(struct zs *z)
{
	ZSTD_freeCCtx(z->pack);
	ZSTD_freeDCtx(z->unpack);
	*z = (struct zs){ 0 };
}

size_t zs_bound(size_t n)
{
	return ZSTD_compressBound(n);
}

/*
 * On planes a search for matches finds short ones by accident, which cost more bits than they save:
 * the smallest tables and the longest least match leave it to find runs, and the entropy coder the rest.
 * Normal weights: 2.3 GB/s and 27.2 bits instead of 1.2 GB/s and 27.3 at level 1; seven zeros in
 * eight: 3.8 bits instead of 4.4.
 */
static int set_up(ZSTD_CCtx *c, enum zs_kind kind)
{
	static const struct {
		ZSTD_cParameter name;
		int value;
	} planes[] = {
		{ ZSTD_c_strategy, ZSTD_dfast },
		{ ZSTD_c_minMatch, 7 },
		{ ZSTD_c_hashLog, 6 },
		{ ZSTD_c_chainLog, 6 },
	};
	size_t rc = ZSTD_CCtx_reset(c, ZSTD_reset_session_and_parameters);

	if (!ZSTD_isError(rc))
		rc = ZSTD_CCtx_setParameter(c, ZSTD_c_compressionLevel, 1);
	for (size_t i = 0; kind == ZS_PLANES && i < sizeof planes / sizeof planes[0] && !ZSTD_isError(rc); i++)
		rc = ZSTD_CCtx_setParameter(c, planes[i].name, planes[i].value);
	return ZSTD_isError(rc) ? err_set(ERR_DATA, "zstd: %s", ZSTD_getErrorName(rc)) : 0;
}

int zs_pack(struct zs *z, void *out, size_t *out_n, const void *in, size_t n, enum zs_kind kind)
{
	size_t got;
	int rc;

	if (!z->pack && !(z->pack = ZSTD_createCCtx()))
		return err_nomem();
	if ((rc = set_up(z->pack, kind)) < 0)
		return rc;
	got = ZSTD_compress2(z->pack, out, *out_n, in, n);
	if (ZSTD_isError(got))
		return err_set(ERR_DATA, "zstd: %s", ZSTD_getErrorName(got));
	*out_n = got;
	return 0;
}

/*
 * One frame of the present zstd format, and nothing before or after: the decoder by itself would
 * also take skippable frames, several frames, and frames of early formats that nobody hardened.
 */
static int zs_is_one_frame(const void *in, size_t in_n, size_t n)
{
	unsigned long long announced;

	if (in_n < 4 || le32_get(in) != ZSTD_MAGICNUMBER)
		return err_set(ERR_DATA, "not a zstd frame");
	announced = ZSTD_getFrameContentSize(in, in_n);
	if (announced == ZSTD_CONTENTSIZE_ERROR)
		return err_set(ERR_DATA, "zstd: header makes no sense");
	if (announced != ZSTD_CONTENTSIZE_UNKNOWN && announced != n)
		return err_set(ERR_DATA, "zstd: frame of %llu bytes, expected %zu", announced, n);
	if (ZSTD_findFrameCompressedSize(in, in_n) != in_n)
		return err_set(ERR_DATA, "zstd: not exactly one frame");
	return 0;
}

int zs_unpack(struct zs *z, void *out, size_t n, const void *in, size_t in_n)
{
	size_t got;
	int rc;

	if (!z->unpack && !(z->unpack = ZSTD_createDCtx()))
		return err_nomem();
	if ((rc = zs_is_one_frame(in, in_n, n)) < 0)
		return rc;
	/* In one shot zstd decodes straight into `out`: no window is allocated, whatever it asks for. */
	got = ZSTD_decompressDCtx(z->unpack, out, n, in, in_n);
	if (ZSTD_isError(got))
		return err_set(ERR_DATA, "zstd: %s", ZSTD_getErrorName(got));
	if (got != n)
		return err_set(ERR_DATA, "zstd: %zu bytes, expected %zu", got, n);
	return 0;
}
