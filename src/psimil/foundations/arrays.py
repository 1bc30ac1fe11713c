"""Arrays as annotations name them; what shape they have is said beside."""

from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]
