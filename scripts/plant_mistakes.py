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
    Mistake("sign of 2T - 1 in mean field", "model/label_posteriors.py",
            "sign = labels.spread(2.0 * labels.T - 1.0)", "sign = labels.spread(1.0 - 2.0 * labels.T)",
            "label_posteriors"),
    Mistake("H where log H belongs", 'inference/preparation.py',
            "np.log(options.H), supervision.known)", "options.H, supervision.known)", "fit_stages estimator_training"),
    Mistake("k~ missing from the latent variance", 'inference/passes.py',
            'local.s2[rows] = k + squares', 'local.s2[rows] = squares', 'pass bound identities'),
    Mistake("theta without its 1/2", "model/densities.py",
            "np.tanh(0.5 * x) / (2.0 * x)", "np.tanh(0.5 * x) / x", "densities"),
    Mistake("Gamma theta without the 1/2 of x^2", "model/densities.py",
            "return np.asarray(self.alpha / (self.beta + 0.5 * np.square(c)))",
            "return np.asarray(self.alpha / (self.beta + np.square(c)))", "densities"),
    Mistake("max for noisy-or", 'inference/moments.py',
            '"noisy_or": NoisyOr(),', '"noisy_or": Largest(),', "prediction estimator_predict"),
    Mistake("log Z dropped from the bound", 'inference/passes.py',
            '+ self.entropy - self.log_z', '+ self.entropy', 'bound log_z estimator'),
    Mistake("log Z dropped from the collapsed bound", 'inference/collapsed.py',
            'return -float(w @ r), -w * dr, 0.0', 'return 0.0, -w * dr, 0.0', 'collapsed'),
    Mistake("kernel without its variance", "model/kernels/stationary.py",
            "log_v = x.dtype.type(np.log(self.variance))", "log_v = x.dtype.type(0.0)", "kernels"),
    Mistake("diagonal without the variance", "model/kernels/stationary.py",
            "return np.full(len(X), self.variance, dtype=X.dtype)", "return np.ones(len(X), dtype=X.dtype)",
            "kernels"),
    Mistake("length scale not squared", "model/kernels/stationary.py",
            "left = np.column_stack([x, -0.5 * xx,", "left = np.column_stack([x, -1.0 * xx,",
            "kernels"),
    Mistake("chunks off by one bag", 'inference/shards.py',
            "int(offsets[a]), int(offsets[b])) for", "int(offsets[a]), int(offsets[b]) - 1) for", "pass collapsed"),
    Mistake("offsets off by one when slicing bags", "model/bags.py",
            "return self.X[self.offsets[b] : self.offsets[b + 1]]",
            "return self.X[self.offsets[b] : self.offsets[b + 1] - 1]", "bags"),
    Mistake("statistics not symmetrised", 'compute/numpy_backend.py',
            'return symmetric(total), linear', 'return total, linear', 'pass bound identities'),
    Mistake("jitter not in the stored factor", "foundations/linalg.py",
            "return Factor(np.ascontiguousarray(L), relative * scale)",
            "return Factor(np.ascontiguousarray(L), 0.0)", "linalg"),
    Mistake("negative variance hidden by abs", "foundations/linalg.py",
            "return np.maximum(variance, 0.0)", "return np.abs(variance)", "linalg"),
    Mistake("KL with the wrong sign", 'inference/passes.py',
            'return -self.kl + self.potential', 'return self.kl + self.potential', 'bound identities'),
    Mistake("KL without log determinant", "inference/posterior.py",
            "- len(self.m)) + np.log(np.diag(self.R)).sum())", "- len(self.m)))", "bound pass identities"),
    Mistake("mean from the old kappa sign", 'inference/passes.py',
            'w * (local.pi[rows] - 0.5)', 'w * (0.5 - local.pi[rows])', 'pass bound identities'),
    Mistake("kappa = pi", 'inference/passes.py',
            'w * (local.pi[rows] - 0.5)', 'w * local.pi[rows]', 'pass bound identities'),
    Mistake("exact posterior without normalisation", "model/label_posteriors.py",
            "log_pi = mu - plus - labels.spread(log_norm + np.where(T == 1, 0.0, log_H))", "log_pi = mu - plus",
            "label_posteriors"),
    Mistake("known labels ignored", "model/label_posteriors.py",
            "        pi = np.where(free, pi, labels.known)\n        gain", "        gain", "label_posteriors"),
    Mistake("bag weights ignored in the statistics", 'inference/passes.py',
            'w = shard.instance_weights[rows]', 'w = 1.0', 'pass identities estimator'),
    Mistake("leave-one-out keeps the bag", 'inference/leave_one_out.py',
            'r = mu - np.einsum("bij,bj->bi", A, kappa)', 'r = mu', 'leave_one_out'),
    Mistake("leave-one-out variance of the full fit", "inference/leave_one_out.py",
            'return mean, np.einsum("bii->bi", A) + np.einsum("bji,bji->bi", tA, X)',
            'return mean, np.einsum("bii->bi", A)', "leave_one_out"),
    Mistake("adjoint of K_zz without its 1/2", "inference/collapsed.py",
            "core = 0.5 * (np.eye(M) - second[:M]) - moved", "core = (np.eye(M) - second[:M]) - moved", "collapsed"),
    Mistake("bag variance as sum of variances", "inference/moments.py",
            "variance = np.exp(2.0 * log_survival) *", "variance = np.exp(1.0 * log_survival) *", "moments"),
    Mistake("calibration scale on the variance, not its square", 'inference/moments.py',
            'self.spread**2 * variance', 'self.spread * variance', 'calibration'),
    Mistake("prior variance without the constant mean", "inference/sparse_gp.py",
            "return self.explained_variance(V) + self.bias**2", "return self.explained_variance(V)", "collapsed log_z"),
    Mistake("instance outputs in stored order", "model/bags.py",
            "restored[self.rows] = found", "restored[:] = found", "bags estimator"),
    Mistake("threshold at the wrong tail", "inference/thresholds.py",
            "1.0 - false_positive_rate", "false_positive_rate", "thresholds"),
    Mistake("over-relaxed steps never taken back", 'inference/ascent.py',
            'and last.gp is state.gp and not found.bound.total >= last.bound.total:', 'and False:', 'bound schedule'),
    Mistake("published protocol measured on the test fold", "paper/experiments/splits.py",
            "train, _ = list(StratifiedKFold(FOLDS)", "_, train = list(StratifiedKFold(FOLDS)", "experiments_splits"),
    Mistake("features learned on test bags", "paper/experiments/splits.py",
            "return Split(learn, stop, test, learn, HELD_OUT)", "return Split(learn, stop, test, test, HELD_OUT)",
            "experiments_splits"),
    Mistake("the paper's grid searched on test bags", "paper/experiments/summary.py",
            'else "select_accuracy"', 'else "bag_accuracy"', "experiments_summary"),
    Mistake("paired test without its correction", "paper/experiments/significance.py",
            "np.sqrt(1 / n + (1 - train_fraction) / train_fraction)", "np.sqrt(1 / n)", "significance"),
    Mistake("aggregate by the lower likelihood", "inference/calibration.py",
            'return "max" if gain.sum() > np.sqrt(len(gain)) * gain.std() else "noisy_or"',
            'return "noisy_or" if gain.sum() > np.sqrt(len(gain)) * gain.std() else "max"', "calibration"),
    Mistake("finished fits run again", "paper/experiments/runner.py",
            "if not records.has(job)]", "]", "experiments_runner"),
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
