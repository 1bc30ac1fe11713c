"""A Gaussian process as a model of torchmil, trained by its optimizer on the bound. Needs torchmil."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.nn.functional import logsigmoid

from psimil.estimators.parameters import options_of, resolved
from psimil.estimators.psi_vgpmil import VGPMIL
from psimil.foundations.errors import InputError
from psimil.foundations.linalg import cholesky, inverse_upper
from psimil.foundations.logistic import trapezoid
from psimil.inference.preparation import Supervision, choose_sparse_gp
from psimil.model.bags import Bags
from psimil.model.kernels.torch_gram import gram, log_parameters
from psimil.model.labels import known_labels
from psimil.model.scaling import Scaling
from psimil.model.sparse_gp import KernelState, Posterior
from psimil.predictive.prediction import Prediction
from psimil.predictive.torch_gp import TorchGP, bag_bound, check_torch
from psimil.predictive.trained import TrainedModel
from psimil.torchmil.heads import Head, instance_mask

if TYPE_CHECKING:
    from psimil.estimators.psi_vgpmil import PsiVGPMIL


class GPHead(Head):
    """VGPMIL as the last layer: its bound is the loss, and kernel, inducing points and q(v) are parameters.

    Parameters
    ----------
    model : that training begins from, as :meth:`start` and :meth:`of` make it.
    n_bags : number of training bags, by which the divergence from the prior is shared out among batches.
    feat_ext : what makes (N, D) features of instances (N, ...), trained beside; left out, features are taken as given.

    Examples
    --------
    >>> from psimil.datasets import make_bags
    >>> bags, y, _ = make_bags(n_bags=10, seed=0)
    >>> head = GPHead.start(bags, y, n_inducing=5)
    >>> logits, losses = head.compute_loss(torch.tensor([1]), torch.from_numpy(bags[0])[None])
    >>> logits.shape, list(losses)
    (torch.Size([1]), ['negative_bound'])
    """

    def __init__(self, model: TrainedModel, n_bags: int, feat_ext: torch.nn.Module | None = None) -> None:
        super().__init__()
        check_torch(model.gp)
        if model.context or model.by_draws or model.sharing:
            raise InputError(
                'a head is trained with labels="independent" and context=None. FittedHead takes any model.'
            )
        self._start, self.n_bags = model, n_bags
        self.feat_ext = torch.nn.Identity() if feat_ext is None else feat_ext
        Z, U = torch.from_numpy(model.gp.Z.copy()), torch.from_numpy(model.posterior.U.copy())
        self.register_buffer("location", torch.from_numpy(model.scaling.location.copy()))
        self.register_buffer("scale", torch.from_numpy(model.scaling.scale.copy()))
        directions = model.scaling.directions
        self.register_buffer("directions", None if directions is None else torch.from_numpy(directions.copy()))
        self.Z = torch.nn.Parameter(Z)
        self.log_kernel = torch.nn.Parameter(log_parameters(model.gp.kernel, Z))
        self.q_mean = torch.nn.Parameter(torch.from_numpy(model.posterior.m.copy()))
        self.q_spread = torch.nn.Parameter(torch.triu(U, 1) + torch.diag(U.diagonal().log()))  # log on the diagonal

    @classmethod
    def start(cls, bags: Bags, y: ArrayLike, *, feat_ext: torch.nn.Module | None = None, **settings: Any) -> Self:
        """A head that has learned nothing, as a fit of :class:`psimil.VGPMIL` with these settings begins.

        Parameters
        ----------
        bags : training bags, whose features ``feat_ext`` takes.
        y : (B,) 0 or 1.
        """
        T = known_labels(np.asarray(y), bags.names, "label")
        if feat_ext is not None:
            with torch.no_grad():
                X = _features(feat_ext, torch.from_numpy(np.asarray(bags.X[:])))
            bags = Bags(X.double().numpy(), bags.offsets, bags.ids)
        scaling = Scaling.fit(bags.X)
        options = options_of(resolved(VGPMIL(**{"random_state": 0, **settings})), n_features=bags.n_features)
        rng, labels = np.random.default_rng(settings.get("random_state", 0)), Supervision(T, np.ones(len(T)))
        gp = choose_sparse_gp(scaling.apply(bags.X), scaling, bags, labels, options, rng, bags.n_instances)
        return cls(TrainedModel(scaling, gp, KernelState.first(gp).posterior), len(bags), feat_ext)

    @classmethod
    def of(cls, estimator: PsiVGPMIL, feat_ext: torch.nn.Module | None = None) -> Self:
        """A head that begins with what a fitted model knows, but for its calibration and thresholds."""
        model = estimator.model_
        bare = TrainedModel(model.scaling, model.gp, model.posterior, seed=model.seed)
        return cls(
            replace(bare, coupling=model.coupling, sharing=model.sharing, context=model.context),
            estimator.training_counts_["bags"],
            feat_ext,
        )

    @property
    def model(self) -> TrainedModel:
        """The model as it is now, whose predictions have standard deviations and intervals."""
        with torch.no_grad():
            Z, U = self.Z.cpu().double().numpy().copy(), self._spread().cpu().double().numpy()
            parameters = self.log_kernel.cpu().double().numpy()
            m = self.q_mean.cpu().double().numpy().copy()
        gp = self._start.gp.rebuilt(self._start.gp.kernel.with_log_parameters(parameters), Z)
        return replace(self._start, gp=gp, posterior=Posterior(m, inverse_upper(np.ascontiguousarray(U.T)).T.copy()))

    def forward(self, X: Tensor, mask: Tensor | None = None) -> Tensor:
        """Log-odds (B,) of bags X (B, n, ...) with a mask (B, n), to be differentiated."""
        where = instance_mask(X, mask)
        return _bag_log_odds(*self._latent().moments(self._features(X[where])), where.sum(1).tolist())

    def compute_loss(self, Y: Tensor, X: Tensor, mask: Tensor | None = None) -> tuple[Tensor, dict[str, Tensor]]:
        """Log-odds (B,), and minus the bound per bag given labels Y (B,): its mean over all batches is that of all."""
        where, labels = instance_mask(X, mask), Y.reshape(-1)
        if not torch.isin(labels, labels.new_tensor([0, 1])).all():
            raise InputError("labels of bags must be 0 or 1.")
        sizes = where.sum(1).tolist()
        mean, variance = self._latent().moments(self._features(X[where]))
        each = zip(torch.split(mean, sizes), torch.split(variance, sizes), labels.tolist(), strict=True)
        bounds = torch.stack([bag_bound(mu, s2, int(label)) for mu, s2, label in each])
        U = self._spread()
        kl = 0.5 * (U.square().sum() + self.q_mean.square().sum() - len(U)) - self.q_spread.diagonal().sum()
        with torch.no_grad():
            log_odds = _bag_log_odds(mean, variance, sizes)
        return log_odds, {"negative_bound": kl / self.n_bags - bounds.mean()}

    def _prediction(self, bags: Bags) -> Prediction:
        return self.model.predict(bags)

    def _features(self, instances: Tensor) -> Tensor:
        return _features(self.feat_ext, instances)

    def _spread(self) -> Tensor:
        return torch.triu(self.q_spread, 1) + torch.diag(self.q_spread.diagonal().exp())

    def _latent(self) -> TorchGP:
        kernel, identity = self._start.gp.kernel, torch.eye(len(self.Z), dtype=self.Z.dtype, device=self.Z.device)
        K = gram(kernel, self.Z, self.Z, self.log_kernel)
        jitter = cholesky(K.detach().cpu().double().numpy()).jitter
        L = torch.linalg.cholesky(K + jitter * identity)
        whitening = torch.linalg.solve_triangular(L, identity, upper=False).T
        scaling = (self.location, self.scale, self.directions)
        prior, posterior = (whitening, self._start.gp.bias), (self.q_mean, self._spread())
        return TorchGP.whitened(scaling, kernel, self.log_kernel, self.Z, prior, posterior)


def _features(feat_ext: torch.nn.Module, instances: Tensor) -> Tensor:
    """(N, D) features of instances (N, ...), which are given in the precision of the network."""
    weight = next(feat_ext.parameters(), None)
    features: Tensor = feat_ext(instances if weight is None else instances.to(weight))
    return features


def _bag_log_odds(mean: Tensor, variance: Tensor, sizes: list[int]) -> Tensor:
    """Log-odds (B,) of the noisy or of E sigma(f), from moments (N,) of f, bag after bag."""
    x, w = (torch.from_numpy(one).to(mean) for one in trapezoid())
    f = mean[:, None] + torch.sqrt(variance + 1e-300)[:, None] * x
    log_negative = torch.logsumexp(logsigmoid(-f) + torch.log(w), 1)
    survival = torch.stack([part.sum() for part in torch.split(log_negative, sizes)]).clamp(max=-1e-300)
    return torch.log(-torch.expm1(survival)) - survival
