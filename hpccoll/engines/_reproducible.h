/* One accumulator of the reproducible sum: made of a float, merged, rounded to a float.
 *
 * hpccoll/reproducible.py defines what that is, and has the same steps in numpy. Everything here is
 * free of branches, so that the compiler can vectorise the loops in _kernels.c that call it. */
#ifndef HPCCOLL_REPRODUCIBLE_H
#define HPCCOLL_REPRODUCIBLE_H

#include <stdint.h>
#include <string.h>

#define ONE_BY_ONE static inline __attribute__((always_inline))

enum { MINUS_ZERO = 0, SPECIAL = 63 };
enum { SPARE = 18 }; /* bits of a word beside those of a bin */

/* The bin of a bit is its number divided by the width of a bin: a multiplication by reciprocal and
 * a shift by places, right for every number that there is. A mask of a condition is all ones or
 * none. rest has the bits below those of the first bin, moved to the top of the word. */
#define ACCUMULATOR(bits, explicit, width, reciprocal, places)                                     \
    typedef uint##bits##_t word##bits;                                                             \
    typedef struct {                                                                               \
        word##bits high, middle, low;                                                              \
    } sum##bits;                                                                                   \
                                                                                                   \
    ONE_BY_ONE word##bits mask##bits(int condition)                                                \
    {                                                                                              \
        return -(word##bits)condition;                                                             \
    }                                                                                              \
    ONE_BY_ONE word##bits select##bits(word##bits mask, word##bits yes, word##bits no)             \
    {                                                                                              \
        return (yes & mask) | (no & ~mask);                                                        \
    }                                                                                              \
    ONE_BY_ONE word##bits signed##bits(word##bits magnitude, word##bits sign)                      \
    {                                                                                              \
        return (magnitude ^ sign) - sign;                                                          \
    }                                                                                              \
    ONE_BY_ONE word##bits index##bits(sum##bits x)                                                 \
    {                                                                                              \
        return (x.high & 3) << 4 | (x.middle & 3) << 2 | (x.low & 3);                              \
    }                                                                                              \
                                                                                                   \
    ONE_BY_ONE sum##bits encode##bits(word##bits x)                                                \
    {                                                                                              \
        const word##bits one = 1, top = one << (bits - 1), hidden = one << explicit;               \
        const word##bits fraction = x & (hidden - 1), biased = (x & ~top) >> explicit;             \
        const word##bits subnormal = biased == 0, exponent = biased + subnormal;                   \
        const word##bits significand = (fraction | hidden) - (hidden & -subnormal);                \
        const word##bits bin = (exponent + explicit - 1) * reciprocal >> places;                   \
        const word##bits shift = width * bin + 1 - exponent;                                       \
        const word##bits rest = significand << (bits - shift), sign = -(x >> (bits - 1));          \
        const word##bits a = signed##bits(significand >> shift, sign);                             \
        const word##bits b = signed##bits(rest >> SPARE, sign);                                    \
        const word##bits c = signed##bits(rest << width >> SPARE, sign);                           \
        const word##bits special = mask##bits(biased == (one << (bits - 1 - explicit)) - 1);       \
        const word##bits nan = mask##bits(fraction != 0), number = mask##bits(x != top) & bin;     \
        const word##bits high = select##bits(special, ~nan & ~sign & 1, a);                        \
        const word##bits middle = select##bits(special, ~nan & sign & 1, b);                       \
        const word##bits low = select##bits(special, nan & 1, c);                                  \
        const word##bits index = select##bits(special, SPECIAL, number);                           \
        return (sum##bits){                                                                        \
            high << 2 | index >> 4, middle << 2 | (index >> 2 & 3), low << 2 | (index & 3)};       \
    }                                                                                              \
                                                                                                   \
    /* The sum with the larger index stays; of the other, lower bins are added. */                 \
    ONE_BY_ONE sum##bits merge##bits(sum##bits x, sum##bits y)                                     \
    {                                                                                              \
        const word##bits mine = index##bits(x), other = index##bits(y);                            \
        const word##bits swap = mask##bits((int##bits##_t)(mine - other) < 0);                     \
        const word##bits down = signed##bits(mine - other, swap);                                  \
        const word##bits a = (x.high ^ y.high) & swap, b = (x.middle ^ y.middle) & swap;           \
        const word##bits c = (x.low ^ y.low) & swap, field = ~(word##bits)3;                       \
        const word##bits high = (y.high ^ a) & field, middle = (y.middle ^ b) & field;             \
        const word##bits low = (y.low ^ c) & field;                                                \
        const word##bits none = mask##bits(down == 0), by_one = mask##bits(down == 1);             \
        const word##bits by_two = mask##bits(down == 2);                                           \
        return (sum##bits){                                                                        \
            (x.high ^ a) + (high & none),                                                          \
            (x.middle ^ b) + ((middle & none) | (high & by_one)),                                  \
            (x.low ^ c) + ((low & none) | (middle & by_one) | (high & by_two)),                    \
        };                                                                                         \
    }
ACCUMULATOR(32, 23, 14, 1171, 14)
ACCUMULATOR(64, 52, 46, 1425, 16)

ONE_BY_ONE double from_bits(word64 bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

ONE_BY_ONE word64 bits_of(double x)
{
    word64 bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* A field that exceeds 2**20 leaves the lowest six bits no say but on which side of a middle the
 * value is, and they become 32 unless they are zero. Then every step but the last is exact. */
ONE_BY_ONE word32 decode32(sum32 x)
{
    const int32_t high = (int32_t)x.high >> 2, middle = (int32_t)x.middle >> 2;
    const int32_t low = (int32_t)x.low >> 2, index = (int32_t)index32(x);
    const int large = (high > 1 << 20) | (high < -(1 << 20));
    const word32 coarse = ((word32)low & ~63u) | (word32)((low & 63) != 0) << 5;
    const int32_t last = (int32_t)select32(mask32(large), coarse, (word32)low);
    const double whole = high * 0x1p28 + (middle * 0x1p14 + last);
    const double unit = from_bits((word64)(1023 - 149 + 14 * (index - 2)) << 52);
    const float rounded = (float)(whole * unit);
    word32 number;
    memcpy(&number, &rounded, sizeof number);
    const word32 infinity = select32(mask32(high != 0), 0x7f800000, 0xff800000);
    const int nan = (low != 0) | ((high != 0) & (middle != 0));
    const word32 special = select32(mask32(nan), 0x7fc00000, infinity);
    const word32 other = select32(mask32(index == SPECIAL), special, number);
    return select32(mask32(index == MINUS_ZERO), 0x80000000, other);
}

/* x / 2**n, rounded down, of a number with a sign: AVX2 can't shift that by itself. */
ONE_BY_ONE word64 shifted(word64 x, int n)
{
    const word64 top = (word64)1 << 63;
    return ((x ^ top) >> n) - (top >> n);
}

/* A number below 2**52: no instruction before AVX-512 converts it. */
ONE_BY_ONE double exact(word64 number)
{
    return from_bits(number | bits_of(0x1p52)) - 0x1p52;
}

/* Of the value's magnitude there are digits of 52, 51 and 51 bits, each exact in a double. After
 * their sums what is left over, rest, decides only where the last rounding was a tie. */
ONE_BY_ONE word64 decode64(sum64 x)
{
    const word64 index = index64(x), below = ((word64)1 << 46) - 1;
    const word64 a = shifted(x.high, 2), b = shifted(x.middle, 2), c = shifted(x.low, 2);
    const word64 negative = -((a + shifted(b + shifted(c, 46), 46)) >> 63);
    const word64 low = signed64(c, negative);
    const word64 middle = signed64(b, negative) + shifted(low, 46);
    const word64 high = signed64(a, negative) + shifted(middle, 46);
    const double first = exact(high >> 10) * 0x1p102;
    const double second = exact((high & 1023) << 41 | (middle & below) >> 5) * 0x1p51;
    const double third = exact((middle & 31) << 46 | (low & below));
    const double tail = second + third, rest = third - (tail - second);
    const double nearest = first + tail, error = tail - (nearest - first);
    const double other = nearest + 2 * error;
    const int tie = (error * rest > 0) & (other - nearest == 2 * error);
    const double whole = from_bits(select64(mask64(tie), bits_of(other), bits_of(nearest)));
    /* The unit, which may be too small for a double, in two factors. */
    const word64 biased = 2 * 1023 - 1074 + 46 * (index - 2), half = biased >> 1;
    const double result = whole * from_bits(half << 52) * from_bits((biased - half) << 52);
    const word64 infinity = select64(mask64(a != 0), (word64)0x7ff << 52, (word64)0xfff << 52);
    const int nan = (c != 0) | ((a != 0) & (b != 0));
    const word64 special = select64(mask64(nan), (word64)0x7ff8 << 48, infinity);
    const word64 number = bits_of(result) | negative << 63;
    const word64 any = select64(mask64(index == SPECIAL), special, number);
    return select64(mask64(index == MINUS_ZERO), (word64)1 << 63, any);
}

#endif
