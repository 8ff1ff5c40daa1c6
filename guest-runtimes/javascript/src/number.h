// Conversion of decimal text to the nearest double, for JSON, literals and conversions. Part of engine.c.
//
// By default, JSON uses the C library, whose 128-bit arithmetic is done in software here. Everything else uses the
// engine's own reader, which drops the digits after the 38th even where they decide between two doubles.
#ifndef NUMBER_H
#define NUMBER_H

#include "dtoa.h"

// Digits that the engine's reader keeps, and digits that fit into 64 bits.
#define DIGITS_OF_ENGINE 38
#define DIGITS_OF_WORD 19
// Limits up to which all integers, and all powers of ten, are exact doubles.
#define EXACT_INTEGER (UINT64_C(1) << 53)
#define EXACT_POWER 22

// Reads `[-]digits[.digits][e[sign]digits]`; any text may follow.
__attribute__((noinline)) static double read_decimal(const char *text)
{
    static const double POWERS[EXACT_POWER + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                                   1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    const char *p = text;
    bool negative = *p == '-', point = false;
    uint64_t mantissa = 0;
    int64_t digits = 0, fraction = 0;
    for (p += negative;; p++) {
        if (*p == '.' && !point) {
            point = true;
            continue;
        }
        unsigned digit = (unsigned char)*p - '0';
        if (digit > 9)
            break;
        fraction += point;
        if (digits == 0 && digit == 0)
            continue;
        if (++digits <= DIGITS_OF_WORD)
            mantissa = mantissa * 10 + digit;
    }
    if (digits > DIGITS_OF_ENGINE)
        return (strtod)(text, NULL);
    if (digits <= DIGITS_OF_WORD && mantissa <= EXACT_INTEGER) {
        int exponent = 0;
        if (*p == 'e' || *p == 'E') {
            bool down = *++p == '-';
            // Four digits suffice: a larger exponent is far from exact.
            for (p += *p == '-' || *p == '+'; (unsigned char)*p - '0' <= 9u && exponent < 10000; p++)
                exponent = exponent * 10 + (*p - '0');
            if (down)
                exponent = -exponent;
        }
        int64_t power = exponent - fraction;
        double value = negative ? -(double)mantissa : (double)mantissa;
        // One operation on two exact numbers rounds once, so the result is the nearest double.
        if (power == 0 || mantissa == 0)
            return value;
        if (power > 0 && power <= EXACT_POWER)
            return value * POWERS[power];
        if (power < 0 && power >= -EXACT_POWER)
            return value / POWERS[-power];
    }
    JSATODTempMem scratch;
    return (js_atod)(text, NULL, 10, 0, &scratch);
}

#define strtod(text, end) read_decimal(text)
#define js_atod(text, end, radix, flags, scratch)                                                                      \
    ((radix) == 10 ? read_decimal(text) : (js_atod)(text, end, radix, flags, scratch))

#endif
