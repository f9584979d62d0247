"""Logarithm, exponential and normal numbers that are the same on every platform.

Built from +, -, *, /, square roots and shifts of the exponent, which IEEE 754 defines to the last bit. The
library's own functions differ there between processors and versions, and a draw may hang on that bit.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..draws import uniform

FloatArray = npt.NDArray[np.float64]

LN2 = 0.6931471805599453
SQRT_HALF = 0.7071067811865476
SMALLEST = -700.0  # exp of less is of no consequence, and soon no normal number
ATTEMPTS = 32  # that none of them succeeds has the probability 4e-22


def log(x: FloatArray) -> FloatArray:
    """Natural logarithm of positive numbers, float64 of the same shape, to about 1e-16 of its size or of 1.

    ln x = 2 artanh(t) + n ln 2, where x = m 2^n, m in [sqrt(1/2), sqrt(2)), t = (m - 1) / (m + 1).
    """
    mantissa, exponent = np.frexp(x)
    low = mantissa < SQRT_HALF
    mantissa = np.where(low, 2 * mantissa, mantissa)
    t = (mantissa - 1) / (mantissa + 1)
    square = t * t
    series = np.zeros_like(t)
    for power in range(21, 0, -2):
        series = series * square + 1 / power
    return np.asarray(2 * t * series + (exponent - low.astype(np.int64)) * LN2)


def exp(x: FloatArray) -> FloatArray:
    """Exponential, float64 of the same shape; of numbers below -700 as of -700, of numbers up to 700.

    exp x = 2^n exp(r), where n is the integer next to x / ln 2; the Taylor series of exp(r) up to r^14.
    """
    x = np.maximum(x, SMALLEST)
    shift = np.rint(x / LN2)
    rest = x - shift * LN2
    series = np.ones_like(rest)
    for power in range(14, 0, -1):
        series = 1 + rest * series / power
    return np.asarray(np.ldexp(series, shift.astype(np.int32)))


def normal(count: int, *key: int | str) -> FloatArray:
    """Standard normal numbers, float64 of shape (count,), by the polar method (Marsaglia 1964).

    x sqrt(-2 ln(s) / s), where (x, y) is uniform in the unit disc and s = x^2 + y^2.
    """
    x, y = 2 * uniform(2 * count * ATTEMPTS, *key).reshape(2, count, ATTEMPTS) - 1
    s = x * x + y * y
    first = np.arange(count), np.argmax((s > 0) & (s < 1), axis=1)
    return np.asarray(x[first] * np.sqrt(-2 * log(s[first]) / s[first]))
