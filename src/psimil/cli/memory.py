"""Limits on memory: told before the work where they leave too little for BLAS, which would wait for its buffers."""

from __future__ import annotations

import mmap
import resource

NEEDED = 192 << 20  # bytes: the buffers of the two BLAS that NumPy and SciPy bring, and some room


def check_memory() -> None:
    """Take the buffers of BLAS now, or refuse to compute.

    With a limit (``ulimit -v``) that leaves less than a buffer, OpenBLAS asks for ever, and hears no signal.

    Raises
    ------
    OSError
        When the limit leaves too little; the command line calls it out of memory.
    """
    if all(
        resource.getrlimit(kind)[0] == resource.RLIM_INFINITY for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)
    ):
        return
    mmap.mmap(-1, NEEDED).close()
    import numpy as np
    from scipy.linalg import lapack

    lapack.dtrtri(np.eye(300) @ np.eye(300))
