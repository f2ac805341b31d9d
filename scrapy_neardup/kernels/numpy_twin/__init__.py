"""Every kernel in NumPy: the fallback where nothing is compiled, and the oracle where it is."""

import numpy as np
import numpy.typing as npt

BoolArray = npt.NDArray[np.bool_]
U32Array = npt.NDArray[np.uint32]
U64Array = npt.NDArray[np.uint64]
I64Array = npt.NDArray[np.int64]
F64Array = npt.NDArray[np.float64]
U8Array = npt.NDArray[np.uint8]
