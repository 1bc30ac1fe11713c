"""The operator Sm of Castro-Macias et al. (2024) on the chain of an ordered bag.

Sm(U) is the g that weighs being like U against being like its neighbours,

    argmin over g of (1 - alpha) |g - U|^2 + alpha g' L g,    with L = I - D^(-1/2) A D^(-1/2)

where A has the links between neighbours and D their sums. Its minimum is (I + alpha / (1 - alpha) L)^(-1) U, the fixed
point of g <- alpha (I - L) g + (1 - alpha) U, which ``steps`` such steps approach. An instance without a neighbour has
no part in the second term and stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from psimil.foundations.errors import InputError
from psimil.foundations.numbers import at_least

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Smoothing:
    """Where a network smooths along the chain of a bag, and how much.

    Parameters
    ----------
    of : "features" of instances (the paper's SmAP-early), or "scores" of attention (SmAP-late).
    alpha : weight of the neighbours, from 0 to below 1.
    steps : iterations.

    Examples
    --------
    >>> import pytest
    >>> torch = pytest.importorskip("torch")
    >>> bump, links = torch.tensor([0.0, 1.0, 0.0, 7.0]), torch.tensor([1.0, 1.0, 0.0, 0.0])
    >>> Smoothing("scores", alpha=0.5, steps=50)(bump, links)
    tensor([0.2357, 0.6667, 0.2357, 7.0000])
    """

    of: str = "features"
    alpha: float = 0.5
    steps: int = 10

    def __post_init__(self) -> None:
        """Refuse what breaks a rule."""
        if self.of not in ("features", "scores"):
            raise InputError(f'of must be "features" or "scores", got {self.of!r}.')
        at_least(0, alpha=self.alpha)
        at_least(1, whole=True, steps=self.steps)
        if self.alpha >= 1:
            raise InputError(f"alpha must be a share below 1, got {self.alpha}.")

    def __call__(self, U: Tensor, links: Tensor) -> Tensor:
        """Sm(U) of values (N, ...) for links (N,) from each instance to the next, 0 at the last of a bag."""
        before, after = links.roll(1), links  # the last link of all is 0, so nothing goes round
        degree = before + after
        weight = after / (degree * degree.roll(-1)).clamp_min(1e-30).sqrt()  # between n and n + 1
        shape = (-1,) + (1,) * (U.dim() - 1)
        onward, alone = weight.view(shape), (degree == 0).to(U.dtype).view(shape)
        back, g = onward.roll(1, 0), U
        for _ in range(self.steps):
            g = self.alpha * (onward * g.roll(-1, 0) + back * g.roll(1, 0) + alone * g) + (1 - self.alpha) * U
        return g
