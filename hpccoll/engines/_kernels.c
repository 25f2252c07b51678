/* The kernels of _kernels.h.
 *
 * The file includes itself: its second half is the kernels' one source, compiled once for each
 * instruction set with TARGET set; its first half is what they share, then the choice at run time.
 * (target_clones would do the same through ifunc, which musl hasn't.)
 *
 * Kernels are plain loops left to the compiler's vectoriser: build with -O3 (GCC < 12 doesn't
 * vectorise at -O2, GCC >= 12 there only loops without a remainder), and never with -ffast-math. */
#ifndef TARGET

#include "_kernels.h"
#include "_reproducible.h"

#include <float.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#ifdef __FAST_MATH__
#error "-ffast-math breaks the rules for NaN and -0: build the kernels without it"
#endif
/* 16: _Float16 too rounds to its own type. */
_Static_assert(FLT_EVAL_METHOD == 0 || FLT_EVAL_METHOD == 16, "x87 rounds to another type");

/* A fused multiply-add rounds once where complex prod must round twice. AVX-512 and aarch64 have
 * it, GCC and clang use it by default: forbid it here, for every build but clang's with
 * -ffp-contract=fast, which ignores this. INDEPENDENT says that the iterations are, which holds if
 * into is exactly left or right; restrict would be a lie. */
#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#pragma GCC optimize("fp-contract=off")
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

/* Elements in memory: at any address, whatever the caller calls them. */
#define STORED __attribute__((aligned(1), may_alias))
typedef uint8_t u8 STORED;
typedef uint16_t u16 STORED;
typedef uint32_t u32 STORED;
typedef uint64_t u64 STORED;
typedef int8_t i8 STORED;
typedef int16_t i16 STORED;
typedef int32_t i32 STORED;
typedef int64_t i64 STORED;
typedef float f32 STORED;
typedef double f64 STORED;

#define INLINE static inline __attribute__((always_inline))

INLINE uint32_t float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

INLINE float bits_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* No branch and no ?:, or GCC moves a floating-point operand into the branch that uses it, and then
 * can't vectorise because that operand might trap. */
INLINE uint32_t choose(int condition, uint32_t yes, uint32_t no)
{
    const uint32_t mask = -(uint32_t)condition;
    return (yes & mask) | (no & ~mask);
}

/* 16-bit floats stand in the low half of a word. Magnitudes are compared as signed words: SSE2 has
 * no unsigned comparison. Subnormals are made by an addition that shifts their bits to the end of a
 * normal float's: rounded to nearest even, and without the time that subnormal floats take. */
INLINE float float16_float(uint32_t half)
{
    const int32_t magnitude = (int32_t)(half & 0x7fff) << 13;
    const uint32_t normal = (uint32_t)magnitude + (112u << 23);
    const uint32_t subnormal = float_bits(bits_float(normal + (1u << 23)) - 0x1p-14f);
    const uint32_t finite = choose(magnitude < (1 << 23), subnormal, normal);
    const uint32_t any = choose(magnitude >= (31 << 23), normal + (112u << 23), finite);
    return bits_float(any | (half & 0x8000) << 16);
}

INLINE uint32_t float_float16(float x)
{
    const uint32_t bits = float_bits(x);
    const int32_t magnitude = (int32_t)(bits & 0x7fffffff);
    const uint32_t odd = bits >> 13 & 1;
    const uint32_t normal = ((uint32_t)magnitude - (112u << 23) + 0xfff + odd) >> 13;
    const uint32_t subnormal = float_bits(bits_float((uint32_t)magnitude) + 0.5f) - (126u << 23);
    const uint32_t below = choose(magnitude < (113 << 23), subnormal, normal);
    const uint32_t any = choose(magnitude >= (143 << 23), 0x7c00, below) | (bits >> 16 & 0x8000);
    return choose(magnitude > (255 << 23), 0x7e00, any);
}

INLINE float bfloat16_float(uint32_t half)
{
    return bits_float(half << 16);
}

INLINE uint32_t float_bfloat16(float x)
{
    const uint32_t bits = float_bits(x);
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return choose((int32_t)(bits & 0x7fffffff) > (255 << 23), 0x7fc0, rounded);
}

INLINE float canonical_float(float x)
{
    return bits_float(choose(x != x, 0x7fc00000, float_bits(x)));
}

/* A 2x2 matrix of 16-bit integers is a word: its entries, row by row, from the lowest bits on. */
INLINE uint64_t matmul2x2(uint64_t x, uint64_t y)
{
    const uint32_t xa = x & 0xffff, xb = x >> 16 & 0xffff, xc = x >> 32 & 0xffff, xd = x >> 48 & 0xffff;
    const uint32_t ya = y & 0xffff, yb = y >> 16 & 0xffff, yc = y >> 32 & 0xffff, yd = y >> 48 & 0xffff;
    const uint64_t a = (xa * ya + xb * yc) & 0xffff, b = (xa * yb + xb * yd) & 0xffff;
    const uint64_t c = (xc * ya + xd * yc) & 0xffff, d = (xc * yb + xd * yd) & 0xffff;
    return a | b << 16 | c << 32 | d << 48;
}

/* The bits of a 16-bit float as an integer in the float's order, -0 below +0; its own inverse. */
INLINE int16_t ordered(int16_t bits)
{
    return (int16_t)(bits ^ (bits >> 15 & 0x7fff));
}

INLINE int16_t unless_nan(int16_t found, int16_t left, int16_t right, int16_t infinity, int16_t nan)
{
    const int16_t a = left & 0x7fff, b = right & 0x7fff;
    return (a > b ? a : b) > infinity ? nan : found;
}

/* Writing min as (a < b ? a : b) is the minimum instruction of x86; both orders differ only where
 * a == b (then in the sign of zero: "or" prefers -0, "and" +0) and for NaN.
 *
 * minus changes the sign so that the compiler doesn't see it: GCC 12's vectoriser makes a
 * multiply-add-subtract of (ar * br - ai * bi, ar * bi + ai * br), contraction off or not. */
#define FLOAT_BITS(type, bits_type, nan)                                                           \
    INLINE type min_of_##type(type a, type b)                                                      \
    {                                                                                              \
        const union { type x; bits_type bits; } low = {a < b ? a : b}, same = {b < a ? b : a};     \
        const union { bits_type bits; type x; } least = {low.bits | same.bits};                    \
        return __builtin_isunordered(a, b) ? (type)nan : least.x;                                  \
    }                                                                                              \
    INLINE type max_of_##type(type a, type b)                                                      \
    {                                                                                              \
        const union { type x; bits_type bits; } high = {a > b ? a : b}, same = {b > a ? b : a};    \
        const union { bits_type bits; type x; } most = {high.bits & same.bits};                    \
        return __builtin_isunordered(a, b) ? (type)nan : most.x;                                   \
    }                                                                                              \
    INLINE type minus_##type(type a)                                                               \
    {                                                                                              \
        const union { type x; bits_type bits; } plus = {a};                                        \
        const union { bits_type bits; type x; } minus = {plus.bits ^ ~(~(bits_type)0 >> 1)};       \
        return minus.x;                                                                            \
    }
FLOAT_BITS(float, uint32_t, __builtin_nanf(""))
FLOAT_BITS(double, uint64_t, __builtin_nan(""))

enum { LOOKED_AT = 16 }; /* accumulators of the reproducible sum at a time */

struct kernel_row { const char *dtype, *operator; kernel run; };
struct scaler_row { const char *dtype; scaler run; };
struct converter_row { const char *from, *to; converter run; };
struct target {
    const char *name;
    int (*supported)(void);
    const struct kernel_row *kernels;
    const struct scaler_row *scalers;
    const struct converter_row *converters;
};

#define JOIN_(name, target) name##_##target
#define JOIN(name, target) JOIN_(name, target)
#define NAME(name) JOIN(name, TARGET)

static int supported_baseline(void)
{
    return 1;
}

#define TARGET baseline
#define FOR_TARGET
#if defined(__aarch64__)
#define FLOAT16_LANES 4
#endif
#include "_kernels.c"

#if defined(__x86_64__)

/* __builtin_cpu_supports asks the operating system too, but knows f16c only since GCC 11. */
static int supported_avx2(void)
{
    unsigned a, b, c, d;
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) && (c >> 29 & 1);
}

static int supported_avx512(void)
{
    return supported_avx2() && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

#define TARGET avx2
#define FOR_TARGET __attribute__((target("avx2,f16c")))
#define FLOAT16_LANES 8
#include "_kernels.c"

#define TARGET avx512
#define FOR_TARGET __attribute__((target("avx2,f16c,avx512f,avx512bw,avx512dq,avx512vl")))
#define FLOAT16_LANES 16
#include "_kernels.c"

#endif

static const struct target *const TARGETS[] = {
#if defined(__x86_64__)
    &target_avx512, &target_avx2,
#endif
    &target_baseline, NULL,
};

static const struct target *_Atomic chosen;

static const struct target *target(void)
{
    const struct target *found = chosen;
    if (!found) {
        const struct target *const *best = TARGETS;
        while (!(*best)->supported())
            best++;
        chosen = found = *best;
    }
    return found;
}

const char *kernel_target(void)
{
    return target()->name;
}

int select_target(const char *name)
{
    for (const struct target *const *each = TARGETS; *each; each++)
        if (!strcmp((*each)->name, name) && (*each)->supported()) {
            chosen = *each;
            return 1;
        }
    return 0;
}

kernel find_kernel(const char *dtype, const char *operator)
{
    for (const struct kernel_row *row = target()->kernels; row->run; row++)
        if (!strcmp(row->dtype, dtype) && !strcmp(row->operator, operator))
            return row->run;
    return NULL;
}

scaler find_scaler(const char *dtype)
{
    for (const struct scaler_row *row = target()->scalers; row->run; row++)
        if (!strcmp(row->dtype, dtype))
            return row->run;
    return NULL;
}

converter find_converter(const char *from, const char *to)
{
    for (const struct converter_row *row = target()->converters; row->run; row++)
        if (!strcmp(row->from, from) && !strcmp(row->to, to))
            return row->run;
    return NULL;
}

#if defined(__x86_64__)

/* At least four vectors, disjoint. The first and the last four overlap those between, so that there
 * is no remainder and every other store is aligned. The barrier keeps the compiler from recognising
 * a memcpy. */
__attribute__((target("avx512f")))
static void copy_loop(char *into, const char *source, size_t bytes)
{
    const size_t step = 4 * sizeof(__m512i), last = bytes - step;
    size_t at = 0, next = step - (uintptr_t)into % sizeof(__m512i);
    for (;;) {
        const char *const from = source + at;
        char *const to = into + at;
        const __m512i a = _mm512_loadu_si512(from), b = _mm512_loadu_si512(from + 64);
        const __m512i c = _mm512_loadu_si512(from + 128), d = _mm512_loadu_si512(from + 192);
        _mm512_storeu_si512(to, a);
        _mm512_storeu_si512(to + 64, b);
        _mm512_storeu_si512(to + 128, c);
        _mm512_storeu_si512(to + 192, d);
        __asm__ volatile("" ::: "memory");
        if (at == last)
            return;
        at = next < last ? next : last;
        next = at + step;
    }
}

#endif

/* glibc's memcpy takes up to 1.6 times the loop's time on an AMD EPYC, the same on an Intel Xeon
 * (Sapphire Rapids); outside these sizes, or against a loop in AVX2, it is the faster one. */
void copy_bytes(void *into, const void *source, size_t bytes)
{
    const uintptr_t distance = (uintptr_t)into - (uintptr_t)source;
    if (distance < bytes || -distance < bytes)
        memmove(into, source, bytes);
#if defined(__x86_64__)
    else if (4096 <= bytes && bytes <= 512 << 10 && target() == &target_avx512)
        copy_loop(into, source, bytes);
#endif
    else
        memcpy(into, source, bytes);
}

#else /* TARGET: the kernels */

#define REDUCTION(name)                                                                            \
    FOR_TARGET static void NAME(name)(void *into, const void *left, const void *right, size_t count)
#define DIVISION(name)                                                                             \
    FOR_TARGET static void NAME(name)(void *data, double divisor, size_t count)
#define CONVERSION(name)                                                                           \
    FOR_TARGET static void NAME(name)(void *into, const void *source, size_t count)

#define KERNEL(name, type, expression)                                                             \
    REDUCTION(name)                                                                                \
    {                                                                                              \
        type *const c = into;                                                                      \
        const type *const x = left, *const y = right;                                              \
        INDEPENDENT                                                                                \
        for (size_t i = 0; i < count; i++) {                                                       \
            const type a = x[i], b = y[i];                                                         \
            c[i] = (type)(expression);                                                             \
        }                                                                                          \
    }
#define SCALER(name, type, computed, expression)                                                   \
    DIVISION(name)                                                                                 \
    {                                                                                              \
        type *const x = data;                                                                      \
        const computed by = (computed)divisor;                                                     \
        INDEPENDENT                                                                                \
        for (size_t i = 0; i < count; i++)                                                         \
            x[i] = (type)(expression);                                                             \
    }
#define CONVERTER(name, from, to, expression)                                                      \
    CONVERSION(name)                                                                               \
    {                                                                                              \
        to *const c = into;                                                                        \
        const from *const x = source;                                                              \
        INDEPENDENT                                                                                \
        for (size_t i = 0; i < count; i++)                                                         \
            c[i] = (to)(expression);                                                               \
    }

/* Both signs share what gives the same bits; unsigned so that overflow is defined. "1u *" because
 * uint16_t operands would be promoted to int, and their product can overflow that. */
#define INTEGERS(bits)                                                                             \
    KERNEL(sum_u##bits, u##bits, a + b)                                                            \
    KERNEL(prod_u##bits, u##bits, 1u * a * b)                                                      \
    KERNEL(band_u##bits, u##bits, a & b)                                                           \
    KERNEL(bor_u##bits, u##bits, a | b)                                                            \
    KERNEL(bxor_u##bits, u##bits, a ^ b)                                                           \
    KERNEL(land_u##bits, u##bits, (a != 0) & (b != 0))                                             \
    KERNEL(lor_u##bits, u##bits, (a | b) != 0)                                                     \
    KERNEL(lxor_u##bits, u##bits, (a != 0) ^ (b != 0))                                             \
    KERNEL(min_u##bits, u##bits, a < b ? a : b)                                                    \
    KERNEL(max_u##bits, u##bits, a > b ? a : b)                                                    \
    KERNEL(min_i##bits, i##bits, a < b ? a : b)                                                    \
    KERNEL(max_i##bits, i##bits, a > b ? a : b)
INTEGERS(8)
INTEGERS(16)
INTEGERS(32)
INTEGERS(64)

/* Complex elements are pairs: sums and divisions are those of twice as many parts. */
#define FLOATS(name, type, value)                                                                  \
    KERNEL(sum_##name, type, a + b)                                                                \
    KERNEL(prod_##name, type, a * b)                                                               \
    KERNEL(min_##name, type, min_of_##value(a, b))                                                 \
    KERNEL(max_##name, type, max_of_##value(a, b))                                                 \
    SCALER(scale_##name, type, value, x[i] / by)                                                   \
    REDUCTION(sum_c##name)                                                                         \
    {                                                                                              \
        NAME(sum_##name)(into, left, right, 2 * count);                                            \
    }                                                                                              \
    DIVISION(scale_c##name)                                                                        \
    {                                                                                              \
        NAME(scale_##name)(data, divisor, 2 * count);                                              \
    }                                                                                              \
    REDUCTION(prod_c##name)                                                                        \
    {                                                                                              \
        type *const c = into;                                                                      \
        const type *const x = left, *const y = right;                                              \
        INDEPENDENT                                                                                \
        for (size_t i = 0; i < count; i++) {                                                       \
            const type ar = x[2 * i], ai = x[2 * i + 1], br = y[2 * i], bi = y[2 * i + 1];         \
            c[2 * i] = ar * br + minus_##value(ai) * bi;                                           \
            c[2 * i + 1] = ar * bi + ai * br;                                                      \
        }                                                                                          \
    }
FLOATS(f32, f32, float)
FLOATS(f64, f64, double)

/* 16-bit floats two to a word: the halves of a word are taken apart and put together by shifts,
 * where single elements would need the dearer widening and narrowing of vectors. */
#define PAIRS(format, operate)                                                                     \
    (float_##format(operate(format##_float(a & 0xffff), format##_float(b & 0xffff))) |             \
     float_##format(operate(format##_float(a >> 16), format##_float(b >> 16))) << 16)
#define ADD(a, b) ((a) + (b))
#define MULTIPLY(a, b) ((a) * (b))

#define HALF_KERNEL(name, format, operate)                                                         \
    KERNEL(name##_words, u32, PAIRS(format, operate))                                              \
    REDUCTION(name)                                                                                \
    {                                                                                              \
        const size_t last = count - 1;                                                             \
        NAME(name##_words)(into, left, right, count / 2);                                          \
        if (count % 2) {                                                                           \
            const float a = format##_float(((const u16 *)left)[last]);                             \
            const float b = format##_float(((const u16 *)right)[last]);                            \
            ((u16 *)into)[last] = (uint16_t)float_##format(operate(a, b));                         \
        }                                                                                          \
    }
#define HALVES(name, format, infinity, nan)                                                        \
    KERNEL(min_##name, i16, unless_nan(ordered(ordered(a) < ordered(b) ? ordered(a) : ordered(b)), \
                                       a, b, infinity, nan))                                       \
    KERNEL(max_##name, i16, unless_nan(ordered(ordered(a) > ordered(b) ? ordered(a) : ordered(b)), \
                                       a, b, infinity, nan))

HALVES(bf16, bfloat16, 0x7f80, 0x7fc0)
HALF_KERNEL(sum_bf16, bfloat16, ADD)
HALF_KERNEL(prod_bf16, bfloat16, MULTIPLY)
SCALER(scale_bf16, u16, float, float_bfloat16(bfloat16_float(x[i]) / by))
CONVERTER(bf16_to_f32, u16, f32, canonical_float(bfloat16_float(x[i])))
CONVERTER(f32_to_bf16, f32, u16, float_bfloat16(x[i]))

HALVES(f16, float16, 0x7c00, 0x7e00)
#ifndef FLOAT16_LANES
HALF_KERNEL(sum_f16, float16, ADD)
HALF_KERNEL(prod_f16, float16, MULTIPLY)
SCALER(scale_f16, u16, float, float_float16(float16_float(x[i]) / by))
CONVERTER(f16_to_f32, u16, f32, canonical_float(float16_float(x[i])))
CONVERTER(f32_to_f16, f32, u16, float_float16(x[i]))
#else

/* The processor converts: FLOAT16_LANES halves to a vector of floats and back. It keeps the payload
 * of a NaN, so that CANONICAL is ours. */
#if FLOAT16_LANES == 4
#define FLOATS_OF float32x4_t
#define HALVES_OF uint16x4_t
#define WIDEN(h) vcvt_f32_f16(vreinterpret_f16_u16(h))
#define NARROW(x) vreinterpret_u16_f16(vcvt_f16_f32(x))
#define CANONICAL(x) vbslq_f32(vceqq_f32(x, x), x, vdupq_n_f32(__builtin_nanf("")))
#elif FLOAT16_LANES == 8
#define FLOATS_OF __m256
#define HALVES_OF __m128i
#define WIDEN(h) _mm256_cvtph_ps(h)
#define NARROW(x) _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT)
#define CANONICAL(x)                                                                               \
    _mm256_blendv_ps(x, _mm256_set1_ps(__builtin_nanf("")), _mm256_cmp_ps(x, x, _CMP_UNORD_Q))
#else
#define FLOATS_OF __m512
#define HALVES_OF __m256i
#define WIDEN(h) _mm512_cvtph_ps(h)
#define NARROW(x) _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT)
#define CANONICAL(x)                                                                               \
    _mm512_mask_mov_ps(x, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q),                                  \
                       _mm512_set1_ps(__builtin_nanf("")))
#endif

FOR_TARGET INLINE FLOATS_OF NAME(load_f16)(const u16 *from)
{
    HALVES_OF halves;
    memcpy(&halves, from, sizeof halves);
    return WIDEN(halves);
}

FOR_TARGET INLINE void NAME(store_f16)(u16 *into, FLOATS_OF x)
{
    x = CANONICAL(x);
    const HALVES_OF halves = NARROW(x);
    memcpy(into, &halves, sizeof halves);
}

/* The last few elements go through a buffer of a full vector, or they'd need a software path. */
#define FLOAT16_KERNEL(name, operate)                                                              \
    FOR_TARGET INLINE void NAME(name##_vector)(u16 *c, const u16 *a, const u16 *b)                 \
    {                                                                                              \
        NAME(store_f16)(c, operate(NAME(load_f16)(a), NAME(load_f16)(b)));                         \
    }                                                                                              \
    REDUCTION(name)                                                                                \
    {                                                                                              \
        const u16 *a = left, *b = right;                                                           \
        u16 *c = into;                                                                             \
        for (; count >= FLOAT16_LANES; count -= FLOAT16_LANES) {                                   \
            NAME(name##_vector)(c, a, b);                                                          \
            a += FLOAT16_LANES, b += FLOAT16_LANES, c += FLOAT16_LANES;                            \
        }                                                                                          \
        if (count) {                                                                               \
            u16 rest[2][FLOAT16_LANES] = {{0}};                                                    \
            memcpy(rest[0], a, 2 * count);                                                         \
            memcpy(rest[1], b, 2 * count);                                                         \
            NAME(name##_vector)(rest[0], rest[0], rest[1]);                                        \
            memcpy(c, rest[0], 2 * count);                                                         \
        }                                                                                          \
    }
FLOAT16_KERNEL(sum_f16, ADD)
FLOAT16_KERNEL(prod_f16, MULTIPLY)

DIVISION(scale_f16)
{
    const float by = (float)divisor;
    u16 *x = data;
    for (; count >= FLOAT16_LANES; count -= FLOAT16_LANES, x += FLOAT16_LANES)
        NAME(store_f16)(x, NAME(load_f16)(x) / by);
    for (; count; count--, x++)
        *x = (uint16_t)float_float16(float16_float(*x) / by);
}

CONVERSION(f16_to_f32)
{
    const u16 *x = source;
    f32 *c = into;
    for (; count >= FLOAT16_LANES; count -= FLOAT16_LANES, x += FLOAT16_LANES, c += FLOAT16_LANES) {
        FLOATS_OF floats = NAME(load_f16)(x);
        floats = CANONICAL(floats);
        memcpy(c, &floats, sizeof floats);
    }
    for (; count; count--)
        *c++ = canonical_float(float16_float(*x++));
}

CONVERSION(f32_to_f16)
{
    const f32 *x = source;
    u16 *c = into;
    for (; count >= FLOAT16_LANES; count -= FLOAT16_LANES, x += FLOAT16_LANES, c += FLOAT16_LANES) {
        FLOATS_OF floats;
        memcpy(&floats, x, sizeof floats);
        NAME(store_f16)(c, floats);
    }
    for (; count; count--)
        *c++ = (uint16_t)float_float16(*x++);
}

#undef FLOATS_OF
#undef HALVES_OF
#undef WIDEN
#undef NARROW
#undef CANONICAL
#endif

KERNEL(matmul2x2_u64, u64, matmul2x2(a, b))

/* The reproducible sum's accumulators are three words each. Some at a time are looked at first:
 * where no index differs, which is the rule, each word takes one addition. */
#define LOAD(bits, x) ((sum##bits){x[3 * i], x[3 * i + 1], x[3 * i + 2]})
#define STORE(x, value) x[3 * i] = value.high, x[3 * i + 1] = value.middle, x[3 * i + 2] = value.low
#define REPRODUCIBLE(bits)                                                                         \
    REDUCTION(rsum_any_f##bits)                                                                    \
    {                                                                                              \
        u##bits *const c = into;                                                                   \
        const u##bits *const x = left, *const y = right;                                           \
        INDEPENDENT                                                                                \
        for (size_t i = 0; i < count; i++) {                                                       \
            const sum##bits both = merge##bits(LOAD(bits, x), LOAD(bits, y));                      \
            STORE(c, both);                                                                        \
        }                                                                                          \
    }                                                                                              \
    REDUCTION(rsum_f##bits)                                                                        \
    {                                                                                              \
        u##bits *c = into;                                                                         \
        const u##bits *x = left, *y = right;                                                       \
        enum { WORDS = 3 * LOOKED_AT };                                                            \
        for (; count >= LOOKED_AT; count -= LOOKED_AT, c += WORDS, x += WORDS, y += WORDS) {       \
            word##bits differ = 0;                                                                 \
            for (int i = 0; i < WORDS; i++)                                                        \
                differ |= x[i] ^ y[i];                                                             \
            if (differ & 3) {                                                                      \
                NAME(rsum_any_f##bits)(c, x, y, LOOKED_AT);                                        \
                continue;                                                                          \
            }                                                                                      \
            INDEPENDENT                                                                            \
            for (int i = 0; i < WORDS; i++)                                                        \
                c[i] = x[i] + (y[i] & ~(word##bits)3);                                             \
        }                                                                                          \
        NAME(rsum_any_f##bits)(c, x, y, count);                                                    \
    }                                                                                              \
    CONVERSION(f##bits##_to_sums)                                                                  \
    {                                                                                              \
        u##bits *const c = into;                                                                   \
        const u##bits *const x = source;                                                           \
        INDEPENDENT                                                                                \
        for (size_t i = 0; i < count; i++) {                                                       \
            const sum##bits one = encode##bits(x[i]);                                              \
            STORE(c, one);                                                                         \
        }                                                                                          \
    }                                                                                              \
    CONVERSION(sums_to_f##bits)                                                                    \
    {                                                                                              \
        u##bits *const c = into;                                                                   \
        const u##bits *const x = source;                                                           \
        INDEPENDENT                                                                                \
        for (size_t i = 0; i < count; i++)                                                         \
            c[i] = decode##bits(LOAD(bits, x));                                                    \
    }
REPRODUCIBLE(32)
REPRODUCIBLE(64)

#define ROW(dtype, op, name) {dtype, #op, NAME(op##_##name)},
#define INTEGER_ROWS(bits, dtype, sign)                                                            \
    ROW(dtype, sum, u##bits) ROW(dtype, prod, u##bits) ROW(dtype, min, sign##bits)                 \
    ROW(dtype, max, sign##bits) ROW(dtype, band, u##bits) ROW(dtype, bor, u##bits)                 \
    ROW(dtype, bxor, u##bits) ROW(dtype, land, u##bits) ROW(dtype, lor, u##bits)                   \
    ROW(dtype, lxor, u##bits)
#define FLOAT_ROWS(name, dtype)                                                                    \
    ROW(dtype, sum, name) ROW(dtype, prod, name) ROW(dtype, min, name) ROW(dtype, max, name)
static const struct kernel_row NAME(kernels)[] = {
    INTEGER_ROWS(8, "int8", i) INTEGER_ROWS(8, "uint8", u)
    INTEGER_ROWS(16, "int16", i) INTEGER_ROWS(16, "uint16", u)
    INTEGER_ROWS(32, "int32", i) INTEGER_ROWS(32, "uint32", u)
    INTEGER_ROWS(64, "int64", i) INTEGER_ROWS(64, "uint64", u)
    ROW("uint64", matmul2x2, u64)
    ROW("void96", rsum, f32) ROW("void192", rsum, f64)
    FLOAT_ROWS(f16, "float16") FLOAT_ROWS(bf16, "bfloat16")
    FLOAT_ROWS(f32, "float32") FLOAT_ROWS(f64, "float64")
    ROW("complex64", sum, cf32) ROW("complex64", prod, cf32)
    ROW("complex128", sum, cf64) ROW("complex128", prod, cf64)
    {NULL, NULL, NULL},
};
static const struct scaler_row NAME(scalers)[] = {
    {"float16", NAME(scale_f16)},    {"bfloat16", NAME(scale_bf16)},
    {"float32", NAME(scale_f32)},    {"float64", NAME(scale_f64)},
    {"complex64", NAME(scale_cf32)}, {"complex128", NAME(scale_cf64)},
    {NULL, NULL},
};
static const struct converter_row NAME(converters)[] = {
    {"float16", "float32", NAME(f16_to_f32)},   {"float32", "float16", NAME(f32_to_f16)},
    {"bfloat16", "float32", NAME(bf16_to_f32)}, {"float32", "bfloat16", NAME(f32_to_bf16)},
    {"float32", "void96", NAME(f32_to_sums)},   {"void96", "float32", NAME(sums_to_f32)},
    {"float64", "void192", NAME(f64_to_sums)},  {"void192", "float64", NAME(sums_to_f64)},
    {NULL, NULL, NULL},
};
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
static const struct target NAME(target) = {
    TEXT(TARGET), NAME(supported), NAME(kernels), NAME(scalers), NAME(converters),
};

/* Macros above that don't name the target are defined alike for the next; these belong to this. */
#undef TARGET
#undef FOR_TARGET
#undef FLOAT16_LANES
#endif
