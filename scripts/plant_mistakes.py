"""Plant mistakes one by one in a copy of the source and see whether the tests notice.

Run from the root of a checkout, in its environment: ``.venv/bin/python scripts/plant_mistakes.py``. The last line is
``N killed, M survived``; the exit code is 1 when any mistake survives.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent


class Mistake(NamedTuple):
    """A line of the source, what replaces it, and the test files that should notice first."""

    name: str
    file: str
    right: str
    wrong: str
    tests: str


MISTAKES = [
    Mistake("sign of 2T - 1 in mean field", "paper/label_posteriors.py",
            "sign = labels.spread(2.0 * labels.T - 1.0)", "sign = labels.spread(1.0 - 2.0 * labels.T)",
            "label_posteriors"),
    Mistake("H where log H belongs", "inference/preparation.py",
            "np.log(options.H), supervision.known, links",
            "options.H, supervision.known, links", "fit_stages estimator_training"),
    Mistake("k~ missing from the latent variance", 'paper/passes.py',
            'local.s2[rows] = k + squares', 'local.s2[rows] = squares', 'pass bound identities'),
    Mistake("theta without its 1/2", "model/densities.py",
            "np.tanh(0.5 * x) / (2.0 * x)", "np.tanh(0.5 * x) / x", "densities"),
    Mistake("Gamma theta without the 1/2 of x^2", "model/densities.py",
            "return np.asarray(self.alpha / (self.beta + 0.5 * np.square(c)))",
            "return np.asarray(self.alpha / (self.beta + np.square(c)))", "densities"),
    Mistake("max for noisy-or", "predictive/aggregates.py",
            '"noisy_or": NoisyOr(),', '"noisy_or": Largest(),', "prediction estimator_predict"),
    Mistake("log Z dropped from the bound", 'paper/passes.py',
            '+ self.entropy - self.log_z', '+ self.entropy', 'bound log_z estimator'),
    Mistake("kernel without its variance", "model/kernels/stationary.py",
            "log_v = x.dtype.type(np.log(self.variance))", "log_v = x.dtype.type(0.0)", "kernels"),
    Mistake("diagonal without the variance", "model/kernels/stationary.py",
            "return np.full(len(X), self.variance, dtype=X.dtype)", "return np.ones(len(X), dtype=X.dtype)",
            "kernels"),
    Mistake("length scale not squared", "model/kernels/stationary.py",
            "left = np.column_stack([x, -0.5 * xx,", "left = np.column_stack([x, -1.0 * xx,",
            "kernels"),
    Mistake("chunks off by one bag", 'inference/shards.py',
            "int(offsets[a]), int(offsets[b])) for", "int(offsets[a]), int(offsets[b]) - 1) for", "pass bag_pass"),
    Mistake("offsets off by one when slicing bags", "model/bags.py",
            "return np.asarray(self.stream[self.offsets[b] : self.offsets[b + 1]])",
            "return np.asarray(self.stream[self.offsets[b] : self.offsets[b + 1] - 1])", "bags"),
    Mistake("statistics not symmetrised", 'compute/numpy_backend.py',
            'return symmetric(total), sums', 'return total, sums', 'pass bound identities'),
    Mistake("jitter not in the stored factor", "foundations/linalg.py",
            "return Factor(np.ascontiguousarray(L), relative * scale)",
            "return Factor(np.ascontiguousarray(L), 0.0)", "linalg"),
    Mistake("negative variance hidden by abs", "foundations/linalg.py",
            "return np.maximum(variance, 0.0)", "return np.abs(variance)", "linalg"),
    Mistake("KL with the wrong sign", 'paper/passes.py',
            'return -self.kl + self.potential', 'return self.kl + self.potential', 'bound identities'),
    Mistake("KL without log determinant", "model/sparse_gp.py",
            "- len(self.m)) + np.log(np.diag(self.R)).sum())", "- len(self.m)))", "bound pass identities"),
    Mistake("mean from the old kappa sign", 'paper/passes.py',
            'w * (local.pi[rows] - 0.5)', 'w * (0.5 - local.pi[rows])', 'pass bound identities'),
    Mistake("kappa = pi", 'paper/passes.py',
            'w * (local.pi[rows] - 0.5)', 'w * local.pi[rows]', 'pass bound identities'),
    Mistake("exact posterior without normalisation", "paper/label_posteriors.py",
            "log_pi = mu - plus - labels.spread(log_norm + np.where(T == 1, 0.0, log_H))", "log_pi = mu - plus",
            "label_posteriors"),
    Mistake("known labels ignored", "paper/label_posteriors.py",
            "        pi = np.where(free, pi, labels.known)\n        gain", "        gain", "label_posteriors"),
    Mistake("bag weights ignored in the statistics", 'paper/passes.py',
            'w = shard.instance_weights[rows]', 'w = 1.0', 'pass identities estimator'),
    Mistake("bags left out keep their pull", "inference/out_of_bag.py",
            "return (mu - half @ step, half)", "return (mu + 0.0 * (half @ step), half)", "out_of_bag"),
    Mistake("folds that move q(v) by nats left out in closed form", "inference/out_of_bag.py",
            "moved > FAR", "moved > 1e9", "cavities"),
    Mistake("folds fitted again with their bags", "inference/algorithm.py",
            "weights[bags] = 0.0", "weights[bags] = 1.0", "cavities"),
    Mistake("labels of a table that share no noise", "estimators/multilabel.py",
            "if shared.sharing:", "if False:", "multilabel"),
    Mistake("bags left out keep the variance of the full fit", "inference/out_of_bag.py",
            "R = floored(np.eye(len(C)) - C, FLOOR)", "R = np.eye(len(C))", "out_of_bag"),
    Mistake("bags of one label in one fold", "inference/out_of_bag.py",
            "fold[order] = turn % folds", "fold[order] = turn * folds // len(T)",
            "out_of_bag"),
    Mistake("AUC of out-of-bag bags across folds", "results/metrics.py",
            "        own = fold == number\n", "        own = fold >= 0\n", "metrics"),
    Mistake("bag variance as sum of variances", "predictive/aggregates.py",
            "variance = np.exp(2.0 * log_survival) *", "variance = np.exp(1.0 * log_survival) *", "moments"),
    Mistake("calibration scale on the variance, not its square", 'predictive/moments.py',
            'self.spread**2 * variance', 'self.spread * variance', 'calibration'),
    Mistake("prior variance without the constant mean", "model/sparse_gp.py",
            "return self.explained_variance(V) + self.bias**2", "return self.explained_variance(V)", "log_z"),
    Mistake("instance outputs in stored order", "model/bags.py",
            "restored[self.rows] = found", "restored[:] = found", "bags estimator"),
    Mistake("threshold at the wrong tail", "predictive/thresholds.py",
            "1.0 - false_positive_rate", "false_positive_rate", "thresholds"),
    Mistake("over-relaxed steps never taken back", 'paper/ascent.py',
            'and last.gp is state.gp and not found.bound.total >= last.bound.total:', 'and False:', 'bound schedule'),
    Mistake("published protocol measured on the test fold", "paper/experiments/trial_data.py",
            "train, _ = list(StratifiedKFold(FOLDS)", "_, train = list(StratifiedKFold(FOLDS)", "experiments_splits"),
    Mistake("features learned on test bags", "paper/experiments/trial_data.py",
            "return Split(learn, stop, test, learn, HELD_OUT)", "return Split(learn, stop, test, test, HELD_OUT)",
            "experiments_splits"),
    Mistake("the paper's grid searched on test bags", "paper/experiments/summary.py",
            'else "select_accuracy"', 'else "bag_accuracy"', "experiments_summary"),
    Mistake("paired test without its correction", "paper/experiments/summary.py",
            "np.sqrt(1 / n + (1 - train_fraction) / train_fraction)", "np.sqrt(1 / n)", "significance"),
    Mistake("finished fits run again", "paper/experiments/trial.py",
            "if not records.has(job)]", "]", "experiments_jobs"),
    Mistake("gradient of a bag with the wrong sign", "model/bag_likelihoods.py",
            "labels.spread((sign * np.exp(log_a)).astype(number)) * s",
            "labels.spread(np.exp(log_a).astype(number)) * s",
            "bag_likelihoods"),
    Mistake("W where P0 belongs", "model/bag_likelihoods.py",
            "log_P0 = -hazard.astype(np.float64)", "log_P0 = log1mexp(-hazard.astype(np.float64))", "bag_likelihoods"),
    Mistake("root of the rank-one term without its square of W", "model/bag_likelihoods.py",
            "z - log_W, 0.5 * z - log_W", "z - log_W, 0.5 * z - 0.5 * log_W", "bag_likelihoods"),
    Mistake("vector of a finite H as of a certain bag", "model/bag_likelihoods.py",
            "0.5 * (t + 2.0 * log_one_minus_a))", "0.5 * (t + log_one_minus_a))", "bag_likelihoods"),
    Mistake("diagonal without its sign", "model/bag_likelihoods.py",
            "np.negative(diagonal, out=diagonal)", "np.positive(diagonal, out=diagonal)", "bag_likelihoods"),
    Mistake("known positives do not explain their bag", "model/bag_likelihoods.py",
            "explained = np.where(one, np.inf, 0.0)", "explained = np.where(one, 0.0, 0.0)", "bag_likelihoods"),
    Mistake("curvature of a density forgotten", "model/bag_likelihoods.py",
            "diagonal=found.diagonal - log_ratio_curvature(density, f)", "diagonal=found.diagonal",
            "bag_likelihoods"),
    Mistake("variance of the vectors not on the diagonal", "inference/sites.py",
            "mean(found.diagonal) + sign * (squares - r * r)", "mean(found.diagonal)", "bag_pass sites"),
    Mistake("rank-one terms dropped", "inference/sites.py",
            "total += backend.bag_gram(",
            "backend.bag_gram(", "bag_pass variational"),
    Mistake("draws that are not antithetic", "foundations/logistic.py",
            "return np.hstack([half, -half])", "return np.hstack([half, half])", "bag_pass"),
    Mistake("draws around zero", "inference/draws.py",
            "posterior.m[:, None] + posterior.U @ self.blocks", "posterior.U @ self.blocks", "bag_pass variational"),
    Mistake("step of the mean without the prior", "inference/variational.py",
            "half = solve_lower(R, sums.gradient - share * posterior.m)", "half = solve_lower(R, sums.gradient)",
            "variational"),
    Mistake("precision without the prior", "inference/variational.py",
            "precision[np.diag_indices_from(precision)] += share",
            "precision[np.diag_indices_from(precision)] += 0.0",
            "variational"),
    Mistake("steps that make things worse kept", "inference/variational.py",
            "if found.better(last, stages[stage].tilted):", "if True:", "variational"),
    Mistake("steps that double variances", "inference/variational.py",
            "np.maximum(values, FLOOR) ** (0.5 * weight)", "np.maximum(values, FLOOR) ** weight", "draws variational"),
    Mistake("divergence the other way round", "inference/variational.py",
            "divergence(self.whole_step, self.posterior)", "divergence(self.posterior, self.whole_step)",
            "variational"),
    Mistake("no second start of the kernel", "inference/kernel_learning.py",
            "gp.kernel.stretched(SMOOTHER)", "gp.kernel", "kernel_learning"),
    Mistake("length scales that part freely", "inference/kernel_learning.py",
            "search.run(parted, best, PARTING_DEVIATION)", "search.run(parted, best)", "kernel_learning"),
    Mistake("bound without its KL", "inference/bag_pass.py",
            "return self.likelihood - self.kl - self.log_z", "return self.likelihood - self.log_z", "variational"),
    Mistake("weight of a bag not rooted for its vector", "inference/sites.py",
            "bag_gram(V, np.sqrt(w) * self.vector",
            "bag_gram(V, w * self.vector", "bag_pass"),
    Mistake("bags left out without their chains", "inference/out_of_bag.py",
            "chains = tuple((c[rows], rho[rows]) for c, rho in sites.chains)", "chains = ()", "chain_cavities"),
    Mistake("adjoint of K_zz with the wrong sign", "inference/evidence.py",
            "gradient - 0.5 * gp.kernel.gram_adjoint(", "gradient + 0.5 * gp.kernel.gram_adjoint(",
            "evidence_gradient"),
    Mistake("diagonal of the adjoint of K_zz not halved", "inference/evidence.py",
            "lower[np.diag_indices(M)] *= 0.5", "lower[np.diag_indices(M)] *= 1.0", "evidence_gradient"),
    Mistake("trajectories turned the wrong way", "foundations/hamiltonian.py",
            "np.cos(e) * p - np.sin(e) * state.x", "np.cos(e) * p + np.sin(e) * state.x", "hamiltonian"),
    Mistake("every trajectory accepted", "foundations/hamiltonian.py",
            "state.where(rng.random(len(lost)) < acceptance, start)", "state.where(acceptance >= 0.0, start)",
            "hamiltonian"),
    Mistake("tilted weights of the wrong sign", "inference/sites.py",
            "each = (sites.gradient - df.dtype.type(0.5) * curved) * df",
            "each = (sites.gradient + df.dtype.type(0.5) * curved) * df", "sites"),
    Mistake("what the gradient varies by not taken away", "inference/sites.py",
            "new.diagonal - lost", "new.diagonal", "sites"),
    Mistake("negative bags tilted as one factor", "inference/sites.py",
            "np.where(separate, found.alone - each, ", "np.where(separate & False, found.alone - each, ", "sites"),
    Mistake("every group of bags with the same draws", "inference/draws.py",
            "return (bag // self.group) % len(self.blocks)", "return 0", "draws"),
    Mistake("groups counted from the start of a shard", "inference/bag_pass.py",
            "rows.stop - start], shard.first + bags.first)", "rows.stop - start], bags.first)", "draws"),
    Mistake("tiny probabilities added up whatever labels share", "predictive/aggregates.py",
            "(0.0 if dependence is None else dependence.log_share)", "0.0", "shared_predictions"),
    Mistake("latent values of few draws as they are", "inference/draws.py",
            "if self.root is not None:\n            own", "if self.root is None:\n            own", "draws"),
    Mistake("error of a bound with what stretching fixes", "inference/draws.py",
            "return np.asarray(found - found.mean(), dtype=np.float64)", "return np.zeros(len(deviations))", "draws"),
    Mistake("evidence without the tilted sum", "inference/variational.py",
            "- divergence(q, whole) + self.sums.tilted", "- divergence(q, whole)", "tilted_posterior"),
    Mistake("evidence gradient without its curvature", "inference/evidence.py",
            "by_K = np.vstack([q.m[:M], -q.S[:, :M]])", "by_K = np.vstack([q.m[:M], 0.0 * q.S[:, :M]])",
            "evidence_gradient"),
    Mistake("messages from the left without the link", "model/chains.py",
            "top = x * links", "top = x * 1.0", "chains"),
    Mistake("correlation of neighbours with the wrong sign", "model/chains.py",
            "x *= np.expm1(2.0 * J)", "x *= -np.expm1(2.0 * J)", "chains"),
    Mistake("innovations without the square", "foundations/scans.py",
            "np.roll(np.square(link) * c, 1)", "np.roll(link * c, 1)", "scans chains"),
    Mistake("log P0 of a chain as of independent labels", "model/chains.py",
            "plus = log1p(chain.odds * np.exp(-links))", "plus = log1p(chain.odds)", "chain_training"),
    Mistake("chains left out of the curvature", "inference/sites.py",
            "total += backend.weighted_sums(W,", "backend.weighted_sums(W,", "chain_pass"),
    Mistake("gaps that do not break a chain", "model/bag_order.py",
            "GAP = 1.5", "GAP = 1e9", "chain_training"),
    Mistake("hazards to the power of 1 / eta", "model/shared_labels.py",
            "share = np.power(part, number(eta))", "share = np.power(part, number(1.0 / eta))", "shared_labels"),
    Mistake("gradient of shared noise without its hazard", "model/shared_labels.py",
            "labels.spread((sign * of_A).astype(number)) * along",
            "labels.spread((sign * np.exp(log_a)).astype(number)) * along", "shared_labels"),
    Mistake("vector of shared noise as of independent labels", "model/shared_labels.py",
            "+ more * of_A)", "+ 0.0 * of_A)", "shared_labels"),
    Mistake("slope by tau with the wrong sign", "model/shared_labels.py",
            "return np.asarray(-self.sign(labels) * np.exp(", "return np.asarray(self.sign(labels) * np.exp(",
            "shared_labels shared_training"),
    Mistake("slope by tau without the weights of draws", "inference/evidence.py",
            "1.0 / len(f), tilted.weights)", "1.0 / len(f), 1.0 / len(f))", "shared_training"),
    Mistake("tau for nothing", "inference/kernel_learning.py",
            "value -= SHARING_PRICE * tau", "value -= 0.0 * tau", "shared_training"),
    Mistake("tau forgotten after the kernel", "inference/training.py",
            "replace(shards.labels.coupled(self.coupling), sharing=self.sharing)",
            "shards.labels.coupled(self.coupling)", "shared_training"),
    Mistake("tau ignored in predictions", "predictive/aggregates.py",
            "total_hazard(risk, offsets, sharing) if", "total_hazard(risk, offsets, 0.0) if", "shared_predictions"),
    Mistake("tau ignored where draws predict", "predictive/drawn.py",
            "total_hazard(softplus(f), offsets, sharing)", "total_hazard(softplus(f), offsets, 0.0)",
            "shared_predictions"),
    Mistake("bags left out with independent labels", "inference/out_of_bag.py",
            "each, shard.labels.sharing)", "each, 0.0)", "shared_predictions"),
    Mistake("novel instances that are many chances", "predictive/novelty.py",
            "more = shared[:, None] * np.sqrt(", "more = 0.0 * shared[:, None] * np.sqrt(", "novelty"),
]  # fmt: skip


def notices(mistake: Mistake, python: str) -> bool:
    """Whether the tests fail with the mistake in place."""
    with tempfile.TemporaryDirectory() as folder:
        for part in ("src", "tests"):
            shutil.copytree(ROOT / part, Path(folder) / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        path = Path(folder) / "src" / "psimil" / mistake.file
        text = path.read_text()
        if text.count(mistake.right) == 0:
            raise SystemExit(f"{mistake.name}: {mistake.file} no longer holds {mistake.right!r}")
        path.write_text(text.replace(mistake.right, mistake.wrong))
        paths = {path.stem: str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")}
        files = [paths[f"test_{name}"] for name in mistake.tests.split() if f"test_{name}" in paths]
        command = [python, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not slow", *files]
        environment = {**os.environ, "PYTHONPATH": str(Path(folder) / "src"), "OPENBLAS_NUM_THREADS": "1"}
        run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if run.returncode not in (0, 1):
            raise SystemExit(f"{mistake.name}: pytest ended with {run.returncode}\n{run.stdout[-2000:]}")
        return run.returncode == 1


def main() -> int:
    """Plant all mistakes, or those whose name contains a text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="plant only mistakes whose name contains this text")
    arguments = parser.parse_args()
    chosen = [m for m in MISTAKES if arguments.only in m.name]
    survived = []
    for mistake in chosen:
        killed = notices(mistake, sys.executable)
        print(f"{'killed  ' if killed else 'SURVIVED'}  {mistake.name} ({mistake.file})", flush=True)
        survived += [] if killed else [mistake.name]
    print(f"{len(chosen) - len(survived)} killed, {len(survived)} survived")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
