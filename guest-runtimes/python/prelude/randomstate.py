"""Integers of 64 bits from `numpy.random.RandomState`, compiled for C's `long`, and from the functions of
`numpy.random`.

Numbers are drawn as on a 64-bit system, so that a seed gives the same numbers here.
"""
import functools
import gc
import inspect
import sys

from _codebox import hooks

# The largest C `long` of this interpreter.
_LONG_MAX = (1 << 31) - 1

# Methods whose arrays have the right values, as C longs.
_NARROW = (
    "choice", "hypergeometric", "multinomial", "permutation", "poisson", "random_integers", "zipf",
)

# Methods that return the largest C long for a larger value.
_CUT = ("geometric", "logseries", "negative_binomial")


def _wide_methods(numpy, methods):
    """Returns the methods that replace compiled ones, by name."""
    ndarray, long, int64, uint64 = numpy.ndarray, numpy.dtype("l"), numpy.dtype("q"), numpy.dtype("Q")
    kept = dict(methods)

    def wide(drawn):
        return drawn.astype(int64) if isinstance(drawn, ndarray) and drawn.dtype == long else drawn

    def widened(method):
        def draw(self, *args, **kwargs):
            return wide(method(self, *args, **kwargs))

        return draw

    def checked(method):
        def draw(self, *args, **kwargs):
            drawn = wide(method(self, *args, **kwargs))
            if drawn.max(initial=0) == _LONG_MAX if isinstance(drawn, ndarray) else drawn == _LONG_MAX:
                raise OverflowError("drawn number is too large for C long")
            return drawn

        return draw

    # The original checks the arguments and reports what is wrong with them.
    def randint(self, *args, **kwargs):
        dtype = args[3] if len(args) > 3 else kwargs.get("dtype", int)
        if dtype is not int and not (type(dtype) is str and dtype == "l"):
            return kept["randint"](self, *args, **kwargs)
        if len(args) > 3:
            args = (*args[:3], int64, *args[4:])
        else:
            kwargs["dtype"] = int64
        drawn = kept["randint"](self, *args, **kwargs)
        return drawn if isinstance(drawn, ndarray) or dtype is not int else int(drawn)

    def tomaxint(self, size=None):
        drawn = kept["randint"](self, 0, 1 << 64, size, uint64)
        return int(drawn) >> 1 if size is None else (drawn >> uint64.type(1)).astype(int64)

    def binomial(self, *args, **kwargs):
        n = args[0] if args else kwargs.get("n")
        counts = numpy.asarray(n)
        # The original rejects values that are too large for a C long.
        if counts.dtype == int64 and type(n) is not int and counts.max(initial=0) <= _LONG_MAX:
            if args:
                args = (counts.astype(long), *args[1:])
            else:
                kwargs["n"] = counts.astype(long)
        return wide(kept["binomial"](self, *args, **kwargs))

    new = {name: widened(kept[name]) for name in _NARROW}
    new.update({name: checked(kept[name]) for name in _CUT})
    new.update(randint=randint, tomaxint=tomaxint, binomial=binomial)
    for name, method in new.items():
        method.__signature__ = inspect.signature(kept[name])
        functools.update_wrapper(method, kept[name], assigned=("__module__", "__name__", "__qualname__", "__doc__"), updated=())
        del method.__wrapped__
    return new


def _mend(mtrand):
    # A compiled type does not allow new attributes by assignment.
    (methods,) = gc.get_referents(mtrand.RandomState.__dict__)
    new = _wide_methods(sys.modules["numpy"], methods)
    shown = [name for name in new if hasattr(mtrand, name)]
    methods.update(new)
    sys._clear_internal_caches()
    for name in shown:
        setattr(mtrand, name, getattr(mtrand._rand, name))


def install():
    hooks.after_import("numpy.random.mtrand", _mend)
