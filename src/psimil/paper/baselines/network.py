"""Gated attention (Ilse, Tomczak, Welling 2018): the network, without padding and without a loop over bags.

For an instance x of bag b, with z = relu(x W + w):

    score = tanh(z V + v) * sigmoid(z U + u) . a
    alpha = exp(score) / sum over the bag of exp(score)
    logit of the bag = (sum over the bag of alpha z) . c + d

With :class:`Smoothing`, z or the scores are smoothed along the chain of an ordered bag first, by the operator Sm of
Castro-Macias et al. (2024). Sm(U) is the g that weighs being like U against being like its neighbours,

    argmin over g of (1 - alpha) |g - U|^2 + alpha g' L g,    with L = I - D^(-1/2) A D^(-1/2)

where A has the links between neighbours and D their sums. Its minimum is (I + alpha / (1 - alpha) L)^(-1) U, the fixed
point of g <- alpha (I - L) g + (1 - alpha) U, which ``steps`` such steps approach. An instance without a neighbour has
no part in the second term and stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from psimil.foundations.arrays import Array
from psimil.foundations.errors import InputError
from psimil.foundations.extras import needed
from psimil.foundations.numbers import at_least
from psimil.model.bag_order import links_of
from psimil.model.bags import Bags

if TYPE_CHECKING:
    from torch import Generator, Tensor


def require_torch() -> Any:
    """The module torch, or a refusal that says how to install it.

    Examples
    --------
    >>> require_torch().__name__
    'torch'
    """
    with needed("attention MIL needs torch", "torch"):
        import torch
    return torch


def segment_softmax(scores: Tensor, bag: Tensor, n_bags: int) -> Tensor:
    """Softmax within each bag.

    Parameters
    ----------
    scores : (N,) one per instance.
    bag : (N,) index of each instance's bag.
    n_bags : B.

    Returns
    -------
    weights : (N,) positive, with sum 1 in each bag.

    Examples
    --------
    >>> import torch
    >>> segment_softmax(torch.tensor([5.0, 5.0, 0.0]), torch.tensor([0, 0, 1]), 2)
    tensor([0.5000, 0.5000, 1.0000])
    """
    highest = scores.new_zeros(n_bags).scatter_reduce(0, bag, scores.detach(), "amax", include_self=False)
    raised = (scores - highest[bag]).exp()  # weights do not depend on what is taken off, so no gradient goes there
    return raised / scores.new_zeros(n_bags).index_add(0, bag, raised).index_select(0, bag)


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
    >>> import torch
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


@dataclass(frozen=True)
class GatedAttention:
    """The network with all its weights in one vector.

    Parameters
    ----------
    theta : (P,) weights.
    n_features, hidden, attention : D, width of z, width of the gate.
    smoothing : what is smoothed along ordered bags; None for nothing.

    Examples
    --------
    >>> import torch
    >>> network = GatedAttention.initial(3, 4, 2, torch.Generator().manual_seed(0))
    >>> logits, weights = network.forward(torch.ones(5, 3), torch.tensor([0, 0, 1, 1, 1]), 2)
    >>> logits.shape, weights.shape
    (torch.Size([2]), torch.Size([5]))
    """

    theta: Tensor
    n_features: int
    hidden: int
    attention: int
    smoothing: Smoothing | None = None

    @classmethod
    def initial(
        cls, n_features: int, hidden: int, attention: int, generator: Generator, smoothing: Smoothing | None = None
    ) -> GatedAttention:
        """Weights drawn from U(-1, 1) / sqrt(number of inputs)."""
        torch = require_torch()
        shapes = _shapes(n_features, hidden, attention)
        parts = [
            (2 * torch.rand(prod(shape), generator=generator) - 1) / sqrt(inputs) for shape, inputs in shapes.values()
        ]
        return cls(torch.cat(parts), n_features, hidden, attention, smoothing)

    def forward(
        self,
        X: Tensor,
        bag: Tensor,
        n_bags: int,
        links: Tensor | None = None,
        dropout: float = 0.0,
        generator: Generator | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Logits of the bags and attention of the instances.

        Parameters
        ----------
        X : (N, D) standardised features.
        bag : (N,) index of each instance's bag.
        links : (N,) from each instance to the next of its bag, for a network that smooths.
        dropout : share of z set to 0, the same for all instances of a bag, the rest raised to make up for it; 0 to
            predict.
        generator : draws what is dropped.

        Returns
        -------
        logits : (B,).
        weights : (N,) alpha.
        """
        torch = require_torch()
        W, w, V, v, U, u, a, c, d = self._parts()
        z = torch.relu(torch.addmm(w, X, W))  # (N, hidden)
        if dropout > 0:
            kept = torch.rand(n_bags, self.hidden, generator=generator) >= dropout
            z = z * (kept / (1 - dropout)).index_select(0, bag)
        z = self._smoothed(z, links, "features")
        if self.smoothing is not None and self.smoothing.of == "features":  # what follows cannot undo it
            V, U, a = (part / torch.linalg.norm(part, 2).clamp_min(1e-6) for part in (V, U, a))
        gate = torch.tanh(torch.addmm(v, z, V)) * torch.sigmoid(torch.addmm(u, z, U))  # (N, attention)
        scores = self._smoothed(gate @ a, links, "scores")
        weights = segment_softmax(scores, bag, n_bags)
        pooled = z.new_zeros(n_bags, self.hidden).index_add(0, bag, weights[:, None] * z)
        return pooled @ c + d, weights

    def log_odds(self, bags: Bags) -> Array:
        """(B,) log-odds of label 1."""
        return self.evaluate(bags)[0]

    def evaluate(self, bags: Bags) -> tuple[Array, Array]:
        """(B,) log-odds of the bags and (N,) attention of their instances, without dropout."""
        torch = require_torch()
        X, _, _, links = as_tensors(bags, np.zeros(len(bags)))
        with torch.no_grad():
            logits, weights = self.forward(X, torch.from_numpy(bags.bag_index), len(bags), links)
        return logits.numpy().astype(np.float64), weights.numpy().astype(np.float64)

    def _smoothed(self, U: Tensor, links: Tensor | None, of: str) -> Tensor:
        if self.smoothing is None or self.smoothing.of != of:
            return U
        assert links is not None  # whoever has a network that smooths knows the order
        return self.smoothing(U, links)

    def _parts(self) -> list[Tensor]:
        shapes = [shape for shape, _ in _shapes(self.n_features, self.hidden, self.attention).values()]
        parts = require_torch().split(self.theta, [prod(shape) for shape in shapes])
        return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]


def _shapes(n_features: int, hidden: int, attention: int) -> dict[str, tuple[tuple[int, ...], int]]:
    """Shape of each weight, in the order of the vector, and how many inputs feed it."""
    return {
        "W": ((n_features, hidden), n_features),
        "w": ((hidden,), n_features),
        "V": ((hidden, attention), hidden),
        "v": ((attention,), hidden),
        "U": ((hidden, attention), hidden),
        "u": ((attention,), hidden),
        "a": ((attention,), attention),
        "c": ((hidden,), hidden),
        "d": ((1,), hidden),
    }


def as_tensors(bags: Bags, T: Array) -> tuple[Tensor, Tensor, Array, Tensor]:
    """(N, D) features and (B,) labels in float32, the offsets, and (N,) links in float32.

    Examples
    --------
    >>> as_tensors(Bags.from_list([[[1.0]], [[2.0]]]), np.array([0, 1]))[0].dtype
    torch.float32
    """
    torch = require_torch()
    X, target, links = (torch.from_numpy(np.asarray(part, dtype=np.float32)) for part in (bags.X, T, links_of(bags)))
    return X, target, bags.offsets, links
