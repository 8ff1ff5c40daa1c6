"""Tells the host where generators of random numbers keep their state, so that it is fresh in every guest.

The host fills the memory itself: running the generators' own seeding in every guest takes longer than a short job.
"""
import random
import sys

from _codebox import door

# Bytes of a Mersenne Twister's state, of which its first words name the place.
_STATE = 624 * 4
_MARK = 6

# Known to nobody before, so that the words stand nowhere else in memory.
_NUMPY_SEED = 0x5EED_C0DE


def install():
    """Runs once, for an image, and leaves both generators at the beginning of a round of their state."""
    random.seed(0x5EED_C0DE_B0C5)
    # Numbers of Python's and not the words themselves: a copy of those in memory would be a second place.
    door.ask("seed", words=list(random.getstate()[1][:_MARK]), len=_STATE)
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed(_NUMPY_SEED)
        door.ask("seed", words=_knuth(_NUMPY_SEED), len=_STATE)


def _knuth(word):
    """The first words that `numpy.random.seed` makes of a number (Knuth, TAOCP volume 2, 3rd edition, page 106)."""
    words = []
    for index in range(1, _MARK + 1):
        words.append(word)
        word = (1812433253 * (word ^ word >> 30) + index) & 0xFFFFFFFF
    return words
