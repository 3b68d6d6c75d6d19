"""The types of arrays that signatures name, for all folders but ``spec``, which knows no NumPy."""

import numpy as np
import numpy.typing as npt

__all__ = ["Bools", "Bytes", "Float64s", "Int16s", "Int32s", "Int64s", "Objects", "UInt64s"]

Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
Float64s = npt.NDArray[np.float64]
Int16s = npt.NDArray[np.int16]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
UInt64s = npt.NDArray[np.uint64]
Objects = npt.NDArray[np.object_]
