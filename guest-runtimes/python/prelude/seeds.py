"""Reports to the host where random number generators keep their state, so that the state is fresh in every guest.

The host fills the memory itself: the generators' own seeding in every guest would take longer than a short job.
"""
import random
import sys

from _codebox import host

# Bytes of a Mersenne Twister's state, which the host finds by the first words of the state.
_STATE = 624 * 4
_MARK = 6

# A value that is used nowhere else, so that the words occur in memory only once.
_NUMPY_SEED = 0x5EED_C0DE


def install():
    """Reports both states; runs once, for an image, and leaves both generators at the beginning of a round of their
    state."""
    random.seed(0x5EED_C0DE_B0C5)
    # Passed as Python integers and not as the words themselves: a copy of the words in memory would be a second match.
    host.call("seed", words=list(random.getstate()[1][:_MARK]), len=_STATE)
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed(_NUMPY_SEED)
        host.call("seed", words=_knuth(_NUMPY_SEED), len=_STATE)


def _knuth(word):
    """Returns the first words that `numpy.random.seed` derives from a number (Knuth, TAOCP volume 2, 3rd edition, page
    106)."""
    words = []
    for index in range(1, _MARK + 1):
        words.append(word)
        word = (1812433253 * (word ^ word >> 30) + index) & 0xFFFFFFFF
    return words
