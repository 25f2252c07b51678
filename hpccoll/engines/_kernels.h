/* Reductions, divisions, copies and conversions of the native engine, vectorised.
 *
 * Every count is in elements of the datatype; no pointer needs an alignment. Every instruction set
 * gives the same bits, but for the sign and payload of a NaN that float32, float64 or complex
 * arithmetic (sum, prod, a scaler) gives.
 *
 * dtypes:    int8 int16 int32 int64 uint8 uint16 uint32 uint64
 *            float16 bfloat16 float32 float64 complex64 complex128
 * operators: sum prod | min max (not complex) | band bor bxor land lor lxor (integers)
 *            rsum of void96 and void192, as numpy calls them: the accumulators of the reproducible
 *            sum of float32 and float64
 */
#ifndef HPCCOLL_KERNELS_H
#define HPCCOLL_KERNELS_H

#include <stddef.h>

/* into[i] = left[i] op right[i]; into may be left or right or neither, but no part of them.
 *
 * Integers wrap around; land, lor and lxor give 0 or 1. min and max of floats put -0 below +0 and
 * give the canonical quiet NaN if either operand is NaN, so that their bits don't depend on the
 * order of a reduction. float16 and bfloat16 sum and prod are computed in float32 and rounded once
 * to nearest even; their NaN is canonical. No expression is contracted to a fused multiply-add. */
typedef void (*kernel)(void *into, const void *left, const void *right, size_t count);

/* data[i] = data[i] / divisor, rounded once in the type (16-bit floats: in float32, then once to
 * the type; complex: both parts). The divisor is rounded to the type divided in. */
typedef void (*scaler)(void *data, double divisor, size_t count);

/* Rounds to nearest even; every NaN becomes the canonical one. into and source are disjoint. */
typedef void (*converter)(void *into, const void *source, size_t count);

kernel find_kernel(const char *dtype, const char *operator); /* NULL where it isn't defined */
scaler find_scaler(const char *dtype);                       /* NULL for integers */
/* float16, bfloat16 <-> float32; float32 <-> void96; float64 <-> void192 */
converter find_converter(const char *from, const char *to);

/* Copy like memmove. */
void copy_bytes(void *into, const void *source, size_t bytes);

/* The instruction set in use: "avx512", "avx2" or "baseline". */
const char *kernel_target(void);

/* Use another instruction set from the next find on; 0 if this processor or build hasn't it. */
int select_target(const char *name);

#endif
