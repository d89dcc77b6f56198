/*
 * vec - the little SIMD that the compiler does not find by itself: a vector of VEC lanes, sums in
 * lanes, exp.
 *
 * Loops without a reduction are written plainly and vectorised by the compiler; sums, which it may
 * not reorder, use lanes here. One source serves every machine: VEC_CLONES compiles a function for
 * AVX-512, AVX2 with FMA and the baseline, and the loader picks one (gcc with glibc on x86-64;
 * elsewhere, or with -DVEC_PLAIN, the compiler's -march decides). The order of a sum does not
 * depend on the clone; products may be fused with additions, so clones differ by rounding.
 *
 * Internal to math.
 */
#ifndef VEC_H
#define VEC_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "math/real.h"

/* Not with a sanitizer, which is not awake yet when the loader asks which clone to take: there the
 * baseline is tested. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define VEC_PLAIN
#endif
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && \
	!defined(VEC_PLAIN)
#if __GNUC__ >= 12
#define VEC_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#endif
#endif
#ifndef VEC_CLONES
#define VEC_CLONES
#endif
/* A helper of a clone must become part of it. */
#define VEC_INLINE static inline __attribute__((always_inline))

enum { VEC = 16 };
typedef real vec __attribute__((vector_size(VEC * sizeof(real)), aligned(sizeof(real)), may_alias));
/* Half of one. AVX2 compares and shuffles no more at once: gcc would take a whole one apart, lane by lane. */
enum { VEC_HALF = VEC / 2 };
typedef real vec_half __attribute__((vector_size(VEC_HALF * sizeof(real)), aligned(sizeof(real)), may_alias));
#ifdef REAL_DOUBLE
typedef int64_t vec_mask __attribute__((vector_size(VEC_HALF * sizeof(real))));
#else
typedef int32_t vec_mask __attribute__((vector_size(VEC_HALF * sizeof(real))));
#endif
#ifdef __clang__
#define VEC_SHUFFLE(v, ...) __builtin_shufflevector(v, v, __VA_ARGS__)
#else
#define VEC_SHUFFLE(v, ...) __builtin_shuffle(v, (vec_mask){ __VA_ARGS__ })
#endif
/* Its quarters (of a vec), eighths, sixteenths exchanged. */
#define VEC_QUARTERS(v) VEC_SHUFFLE(v, 4, 5, 6, 7, 0, 1, 2, 3)
#define VEC_EIGHTHS(v) VEC_SHUFFLE(v, 2, 3, 0, 1, 6, 7, 4, 5)
#define VEC_SINGLES(v) VEC_SHUFFLE(v, 1, 0, 3, 2, 5, 4, 7, 6)

VEC_INLINE int vec_up(int n)
{
	return (n + VEC - 1) / VEC * VEC;
}

/* Halves folded onto each other: a fixed tree. */
VEC_INLINE real vec_sum(const vec *v)
{
	const vec_half *half = (const vec_half *)v;
	vec_half s = half[0] + half[1];

	s += VEC_QUARTERS(s);
	s += VEC_EIGHTHS(s);
	s += VEC_SINGLES(s);
	return s[0];
}

/* The sum of x[i] * y[i]. */
VEC_INLINE real vec_dot(const real *x, const real *y, int n)
{
	vec s[2] = { { 0 }, { 0 } };
	int i = 0;

	for (; i + 2 * VEC <= n; i += 2 * VEC) {
		s[0] += *(const vec *)(x + i) * *(const vec *)(y + i);
		s[1] += *(const vec *)(x + i + VEC) * *(const vec *)(y + i + VEC);
	}
	s[0] += s[1];
	real sum = vec_sum(s);

	for (; i < n; i++)
		sum += x[i] * y[i];
	return sum;
}

VEC_INLINE real vec_total(const real *x, int n)
{
	vec s = { 0 };
	int i = 0;

	for (; i + VEC <= n; i += VEC)
		s += *(const vec *)(x + i);
	real sum = vec_sum(&s);

	for (; i < n; i++)
		sum += x[i];
	return sum;
}

/* *a becomes the larger of both, lane by lane. */
VEC_INLINE void vec_raise(vec_half *a, const vec_half *b)
{
	const vec_mask keep = *a > *b;

	*a = (vec_half)(((vec_mask)*a & keep) | ((vec_mask)*b & ~keep));
}

/* The largest of n >= 1 numbers; a NaN among them may be passed over. */
VEC_INLINE real vec_largest(const real *x, int n)
{
	real largest = x[0];
	int i = 0;

	if (n >= VEC) {
		vec_half most = *(const vec_half *)x, other = *(const vec_half *)(x + VEC_HALF);

		for (i = VEC; i + VEC <= n; i += VEC) {
			vec_raise(&most, (const vec_half *)(x + i));
			vec_raise(&other, (const vec_half *)(x + i + VEC_HALF));
		}
		vec_raise(&most, &other);
		other = VEC_QUARTERS(most);
		vec_raise(&most, &other);
		other = VEC_EIGHTHS(most);
		vec_raise(&most, &other);
		other = VEC_SINGLES(most);
		vec_raise(&most, &other);
		largest = most[0];
	}
	for (; i < n; i++)
		largest = largest > x[i] ? largest : x[i];
	return largest;
}

/*
 * e^x. Below -64 exactly 0: beside a sum of at least 1 such terms are nothing, and as factors they
 * would make denormal numbers, which cost a hundred cycles each. Above 88 as for 88. NaN stays NaN.
 */
#ifdef REAL_DOUBLE
VEC_INLINE real vec_exp(real x)
{
	return x < -64 ? 0 : exp(x > 88 ? 88 : x);
}
#else
/* x = n ln 2 + r, |r| <= ln 2 / 2: e^r by its series, shifted to 2^n in the exponent. Relative
 * error below 2e-7. */
VEC_INLINE real vec_exp(real x)
{
	const float to_integer = 12582912; /* 1.5 * 2^23: low bits of the sum count whole units */
	const float high = 0.693359375f, low = -2.12194440e-4f; /* ln 2; high * n is exact */
	uint32_t bits;
	float scale;

	x = x > 88 ? 88 : x;
	const float shifted = x * 1.44269504f + to_integer;
	const float n = shifted - to_integer;
	const float r = x - n * high - n * low;
	const float third = 1.f / 6 + r * (1.f / 24 + r * (1.f / 120 + r * (1.f / 720)));
	const float series = 1 + r * (1 + r * (0.5f + r * third));

	memcpy(&bits, &shifted, sizeof(bits));
	bits = (bits + 127) << 23; /* the constant's own bits are shifted out */
	memcpy(&scale, &bits, sizeof(scale));
	return x < -64 ? 0 : series * scale;
}
#endif

#endif
