"""Pointer-sized integers for compiled library code that accepts no others, where Python code passes default
integers."""
import sys

from _codebox import hooks


def _maybe_indices_to_slice(lib):
    intp, narrow = sys.modules["numpy"].intp, lib.maybe_indices_to_slice

    def maybe_indices_to_slice(indices, max_len):
        return narrow(indices if indices.dtype == intp else indices.astype(intp), max_len)

    _copy_names(narrow, maybe_indices_to_slice)
    lib.maybe_indices_to_slice = maybe_indices_to_slice


def _block_manager(managers):
    """Keeps the positions of a frame's columns pointer-sized after a default integer was inserted."""
    intp, manager = managers.np.intp, managers.BlockManager
    insert = manager._insert_update_blklocs_and_blknos

    def _insert_update_blklocs_and_blknos(self, loc) -> None:
        insert(self, loc)
        if self._blknos.dtype != intp:
            self._blklocs, self._blknos = self._blklocs.astype(intp), self._blknos.astype(intp)

    _copy_names(insert, _insert_update_blklocs_and_blknos)
    manager._insert_update_blklocs_and_blknos = _insert_update_blklocs_and_blknos


def _peaks(module):
    """Accepts peaks as default integers, as on 64-bit systems, and rejects floats as there."""
    code = module._arg_peaks_as_expected.__code__
    casts = tuple(
        tuple("same_kind" if value == "safe" else value for value in const) if isinstance(const, tuple)
        else "same_kind" if const == "safe" else const
        for const in code.co_consts
    )
    module._arg_peaks_as_expected.__code__ = code.replace(co_consts=casts)
    widths, intp, int64 = module._peak_widths, module.np.intp, module.np.int64

    def _peak_widths(x, peaks, rel_height, prominences, *bases):
        bases = [base.astype(intp) if getattr(base, "dtype", None) == int64 else base for base in bases]
        return widths(x, peaks, rel_height, prominences, *bases)

    module._peak_widths = _peak_widths


def _median(module):
    """Accepts the size of a kernel as default integers."""
    numpy, median = sys.modules["numpy"], module._medfilt2d

    def _medfilt2d(image, size):
        size = numpy.asarray(size)
        narrow = size.astype(numpy.intp, casting="same_kind")
        return median(image, narrow if (narrow == size).all() else size)

    module._medfilt2d = _medfilt2d


class _LongForInt:
    """numpy for a compiled module whose arrays of `dtype=int` are read as C longs."""

    def __init__(self, numpy):
        self._numpy = numpy

    def __getattr__(self, name):
        value = getattr(self._numpy, name)
        if name != "empty":
            return value

        def empty(*args, dtype=float, **kwargs):
            return value(*args, dtype=self._numpy.long if dtype is int else dtype, **kwargs)

        return empty


def _sampling(module):
    module.np = _LongForInt(module.np)
    sample, int64 = module.sample_without_replacement, sys.modules["numpy"].int64

    def sample_without_replacement(n_population, n_samples, method="auto", random_state=None):
        return sample(n_population, n_samples, method, random_state).astype(int64, copy=False)

    _copy_names(sample, sample_without_replacement)
    module.sample_without_replacement = sample_without_replacement


def _copy_names(old, new):
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(new, name, getattr(old, name))


def install():
    hooks.after_import("pandas._libs.lib", _maybe_indices_to_slice)
    hooks.after_import("pandas.core.internals.managers", _block_manager)
    hooks.after_import("scipy.signal._peak_finding", _peaks)
    hooks.after_import("scipy.signal._sigtools", _median)
    hooks.after_import("sklearn.utils._random", _sampling)
