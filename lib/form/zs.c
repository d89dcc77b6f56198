#include "form/zs.h"

#include <zstd.h>

#include "base/bytes.h"

void zs_release(struct zs *z)
{
	ZSTD_freeCCtx(z->text);
	ZSTD_freeCCtx(z->planes);
	ZSTD_freeDCtx(z->unpack);
	*z = (struct zs){ 0 };
}

size_t zs_bound(size_t n)
{
	return ZSTD_compressBound(n);
}

struct setting {
	ZSTD_cParameter name;
	int value;
};

static int open_packer(void **out, const struct setting *settings, size_t n)
{
	ZSTD_CCtx *c = ZSTD_createCCtx();

	if (!c)
		return err_nomem();
	for (size_t i = 0; i < n; i++)
		if (ZSTD_isError(ZSTD_CCtx_setParameter(c, settings[i].name, settings[i].value))) {
			ZSTD_freeCCtx(c);
			return err_set(ERR_DATA, "zstd: does not know parameter %d",
				(int)settings[i].name);
		}
	*out = c;
	return 0;
}

int zs_pack(struct zs *z, void *out, size_t *out_n, const void *in, size_t n)
{
	static const struct setting text[] = { { ZSTD_c_compressionLevel, 1 } };
	size_t got;
	int rc;

	if (!z->text && (rc = open_packer(&z->text, text, 1)) < 0)
		return rc;
	got = ZSTD_compress2(z->text, out, *out_n, in, n);
	if (ZSTD_isError(got))
		return err_set(ERR_DATA, "zstd: %s", ZSTD_getErrorName(got));
	*out_n = got;
	return 0;
}

/*
 * In a byte plane some bytes are frequent, but their order means little. A search for matches finds
 * short ones by accident, which cost more bits than they save: the smallest table and the longest
 * least match leave it to find runs. And where a plane ends the entropy coder starts anew, instead
 * of making one code for noise and order together. Normal weights come out at 26.7 bits, a small
 * model's at 0.94 of what level 1 makes of them, at twice its speed, and unpack up to three times
 * as fast.
 */
int zs_pack_planes(
	struct zs *z, void *out, size_t *out_n, const void *in, size_t n, size_t head, size_t plane)
{
	static const struct setting planes[] = {
		{ ZSTD_c_compressionLevel, 1 },
		{ ZSTD_c_strategy, ZSTD_fast },
		{ ZSTD_c_minMatch, 7 },
		{ ZSTD_c_hashLog, 6 },
		{ ZSTD_c_windowLog, 17 },
	};
	ZSTD_outBuffer to = { out, *out_n, 0 };
	size_t rest = 0;
	int rc;

	if (!z->planes &&
		(rc = open_packer(&z->planes, planes, sizeof planes / sizeof planes[0])) < 0)
		return rc;
	ZSTD_CCtx_reset(z->planes, ZSTD_reset_session_only);
	ZSTD_CCtx_setPledgedSrcSize(z->planes, n);
	for (size_t at = 0, end = head + plane; at < n && rest == 0; at = end, end += plane) {
		ZSTD_inBuffer from = { (const char *)in + at, (end < n ? end : n) - at, 0 };

		/* What is left to flush after a call is what had no room. */
		rest = ZSTD_compressStream2(
			z->planes, &to, &from, end < n ? ZSTD_e_flush : ZSTD_e_end);
	}
	if (rest != 0)
		return err_set(ERR_DATA, "zstd: %s",
			ZSTD_isError(rest) ? ZSTD_getErrorName(rest) : "no room");
	*out_n = to.pos;
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
	/* In one shot zstd decodes straight into `out`: no window is allocated, whatever it asks
	 * for. */
	got = ZSTD_decompressDCtx(z->unpack, out, n, in, in_n);
	if (ZSTD_isError(got))
		return err_set(ERR_DATA, "zstd: %s", ZSTD_getErrorName(got));
	if (got != n)
		return err_set(ERR_DATA, "zstd: %zu bytes, expected %zu", got, n);
	return 0;
}
