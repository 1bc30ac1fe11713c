"""Measure the gap between the variational posterior and the Gibbs oracle, and write docs/inference-gap.md about it.

Run from the root of a checkout: ``python scripts/write_gap.py docs`` measures and writes everything (some minutes);
``python scripts/write_gap.py docs --page-only`` writes the page again from the tables in docs/images. No number in
the page is typed by hand.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from oracle import bound_gap, compare, gap_summary, interval_coverage, model_of, simulate, simulated_ranks
from oracle.gap_figure import plot_gap
from psimil.figures.canvas import DOTS_PER_INCH
from psimil.files.atomic import atomic_write
from psimil.files.csv_table import write_table
from psimil.files.environment import environment
from psimil.inference.preparation import MEAN_SCALE
from psimil.inference.shards import Shard
from psimil.inference.sparse_gp import SparseGP
from psimil.model.densities import HyperbolicSecant
from psimil.model.kernels import RBF
from psimil.model.label_posteriors import RULES, Labels

TEXT = Path(__file__).with_name("gap_text.md")
TABLES = ("gap", "gap-bounds", "gap-ranks", "gap-coverage")
SHOWN = ("latent mean", "latent deviation", "instance probability", "bag probability")
AGAIN = 5  # times the data sets, when ranks leave their band
PROBLEMS = {  # H, prior deviation of the constant mean, residual, label posterior
    "default": (np.inf, MEAN_SCALE, "projected", "exact"),
    "full residual": (np.inf, MEAN_SCALE, "full", "exact"),
    "paper": (100.0, 0.0, "full", "mean_field"),
}


@dataclass(frozen=True)
class Settings:
    """What is measured, and how long."""

    seeds: int = 5
    bags: int = 10
    new_bags: int = 6
    largest_bag: int = 5
    features: int = 2
    inducing: int = 8
    variance: float = 3.0
    lengthscale: float = 1.2
    chains: int = 100
    draws: int = 200
    rank_repeats: int = 1000
    rank_draws: int = 19
    rank_thin: int = 5
    coverage_repeats: int = 150
    seed: int = 2026


def small_problem(name: str, seed: int, settings: Settings) -> tuple[Shard, SparseGP, Shard]:
    """Bags of random size with labels drawn from the model, both labels present, and new bags beside them."""
    H, bias, residual, rule = PROBLEMS[name]
    rng = np.random.default_rng([settings.seed, seed])
    Z = 1.5 * rng.normal(size=(settings.inducing, settings.features))
    gp = SparseGP.build(RBF(settings.variance, settings.lengthscale), Z, bias=bias, residual=residual)

    def bags(count: int) -> Shard:
        sizes = rng.integers(1, settings.largest_bag + 1, count)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        X = rng.normal(size=(int(offsets[-1]), settings.features))
        labels = Labels(np.arange(count) % 2, offsets, float(np.log(H)))
        return Shard(X, labels, np.ones(count), HyperbolicSecant(), RULES[rule], keep=True)

    problem, new = bags(settings.bags), bags(settings.new_bags)
    T = next(T for T in simulate(model_of(problem, gp), 1000, rng)[2] if 0 < T.mean() < 1)
    return replace(problem, labels=replace(problem.labels, T=T)), gp, new


def measure(settings: Settings) -> dict[str, pd.DataFrame]:
    """Every table of the page."""
    gaps, bounds, ranks, coverages = [], [], [], []
    for number, name in enumerate(PROBLEMS):
        for seed in range(settings.seeds):
            problem, gp, new = small_problem(name, seed, settings)
            rng = np.random.default_rng([settings.seed, number, seed])
            found = compare(problem, gp, new.X, new.labels.offsets, rng, chains=settings.chains, draws=settings.draws)
            found.insert(0, "problem", name)
            found.insert(1, "seed", seed)
            gaps.append(found)
            bounds.append(bound_row(name, seed, problem, gp, rng, settings))
        problem, gp, _ = small_problem(name, 0, settings)
        rng = np.random.default_rng([settings.seed, number, settings.seeds])
        ranks += ranks_of(name, number, problem, gp, rng, settings)
        covered = interval_coverage(problem, gp, rng, repeats=settings.coverage_repeats)
        covered.insert(0, "problem", name)
        coverages.append(covered)
    found = (pd.concat(gaps), pd.DataFrame(bounds), pd.DataFrame(ranks), pd.concat(coverages))
    return dict(zip(TABLES, found, strict=True))


def bound_row(
    name: str, seed: int, problem: Shard, gp: SparseGP, rng: np.random.Generator, settings: Settings
) -> dict[str, object]:
    """Both bounds of a problem, and log p(T)."""
    bounds, evidence = bound_gap(problem, gp, rng, chains=settings.chains, draws=settings.draws)
    return {"problem": name, "seed": seed, "bags": len(problem.weights), "instances": len(problem.X), **bounds,
            "log_p": evidence.log_p, "error": evidence.error,
            "effective_samples": evidence.effective_samples}  # fmt: skip


def ranks_of(
    name: str, number: int, problem: Shard, gp: SparseGP, rng: np.random.Generator, settings: Settings
) -> list[dict[str, Any]]:
    """Ranks of a problem; where one leaves its band, all are drawn again from more data sets, and both are shown."""
    rows = rank_rows(name, problem, gp, rng, settings)
    if all(row["distance"] <= row["band"] for row in rows):
        return rows
    more = replace(settings, rank_repeats=AGAIN * settings.rank_repeats)
    fresh = np.random.default_rng([settings.seed, number, settings.seeds + 1])
    return rows + rank_rows(name, problem, gp, fresh, more)


def rank_rows(
    name: str, problem: Shard, gp: SparseGP, rng: np.random.Generator, settings: Settings
) -> list[dict[str, Any]]:
    """Uniformity of the oracle's ranks, statistic by statistic."""
    ranks = simulated_ranks(
        model_of(problem, gp), rng, repeats=settings.rank_repeats, draws=settings.rank_draws,
        thin=settings.rank_thin,
    )  # fmt: skip
    p_values, distances = ranks.p_values(), ranks.ecdf_distances()
    return [{"problem": name, "data_sets": ranks.repeats, "statistic": key, "p_value": p_values[key],
             "distance": distances[key], "band": ranks.ecdf_band()} for key in p_values]  # fmt: skip


def draw(table: pd.DataFrame, path: Path) -> None:
    """Four panels of the gap."""
    figure = Figure(figsize=(9.0, 8.0), layout="constrained")
    for ax, quantity in zip(figure.subplots(2, 2).flat, SHOWN, strict=True):
        plot_gap(table, quantity, ax=ax)
    atomic_write(path, lambda stream: figure.savefig(stream, format="png", dpi=DOTS_PER_INCH))


def markdown(heads: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    return "\n".join(f"| {' | '.join(line)} |" for line in [heads, ["---"] * len(heads), *rows])


def gap_lines(table: pd.DataFrame) -> str:
    """The gap by problem and quantity."""
    rows = []
    for name, part in table.groupby("problem", sort=False):
        for row in gap_summary(part).to_dict("records"):
            numbers = [row[key] for key in ("mean_difference", "mean_absolute", "largest", "oracle_error")]
            rows.append([str(name), row["quantity"], str(row["n"]), *(f"{x:.3f}" for x in numbers)])
    heads = ["problem", "quantity", "n", "mean difference", "mean absolute", "largest absolute", "error of the oracle"]
    return markdown(heads, rows)


def bound_lines(table: pd.DataFrame) -> str:
    """The gap of the bound, in nats, by problem: means over seeds."""
    rows = []
    for name, part in table.groupby("problem", sort=False):
        exact, field = part["log_p"] - part["exact"], part["log_p"] - part["mean_field"]
        numbers = [part["log_p"].mean(), exact.mean(), (exact / part["bags"]).mean(), field.mean(),
                   (field / part["bags"]).mean(), part["error"].max()]  # fmt: skip
        rows.append([str(name), str(len(part)), *(f"{x:.3f}" for x in numbers),
                     f"{part['effective_samples'].min():.0f}"])  # fmt: skip
    heads = ["problem", "data sets", "log p(T)", "gap, exact labels", "per bag", "gap, mean field", "per bag",
             "largest error of log p(T)", "fewest effective samples"]  # fmt: skip
    return markdown(heads, rows)


def rank_lines(table: pd.DataFrame) -> str:
    """Chi-square and distance of the ranks."""
    rows = [[row["problem"], str(row["data_sets"]), row["statistic"], f"{row['p_value']:.3f}",
             f"{row['distance']:.3f}", f"{row['band']:.3f}"]
            for row in table.to_dict("records")]  # fmt: skip
    return markdown(["problem", "data sets", "statistic", "chi-square p-value", "distance", "99 % band"], rows)


def rank_summary(table: pd.DataFrame) -> str:
    """How many tests, how many out of their band, round by round."""
    sentences = []
    for count, part in table.groupby("data_sets", sort=True):
        outside = part[part["distance"] > part["band"]]
        which = "; ".join(f"{row['problem']}, {row['statistic']}" for row in outside.to_dict("records"))
        sentences.append(
            f"With {count} data sets per problem: {len(part)} tests, smallest p-value {part['p_value'].min():.3f}, "
            f"{len(outside)} out of the 99 % band{f' ({which})' if which else ''}."
        )
    return " ".join(sentences)


def coverage_lines(table: pd.DataFrame) -> str:
    """Claimed and found shares."""
    rows = [[row["problem"], f"{row['level']:.2f}", f"{row['variational']:.3f} ± {row['error']:.3f}",
             f"{row['oracle']:.3f} ± {row['oracle_error']:.3f}"] for row in table.to_dict("records")]  # fmt: skip
    return markdown(["problem", "claimed", "variational", "oracle"], rows)


def overconfidence(gaps: pd.DataFrame) -> str:
    """How wide the latent deviations are, as a share of the oracle's."""
    part = gaps[gaps["quantity"] == "latent deviation"]
    share = (part["variational"] / part["oracle"]).groupby(part["problem"], sort=False).mean()
    return ", ".join(f"{value:.2f} ({name})" for name, value in share.items())


def page(folder: Path) -> str:
    """The page, from the tables and settings in a folder."""
    tables = {name: pd.read_csv(folder / f"{name}.csv") for name in TABLES}
    facts = json.loads((folder / "gap.json").read_text(encoding="utf-8"))
    chosen = facts["settings"]
    commit = f"`{(facts['commit'] or 'unknown')[:10]}`" + (" with changes on top" if facts["changed"] else "")
    ranks, level = tables["gap-ranks"], tables["gap-coverage"]["level"].max()
    widest = tables["gap-coverage"][tables["gap-coverage"]["level"] == level]
    filled = {
        "COMMIT": commit,
        "VERSIONS": ", ".join(f"{key} {value}" for key, value in facts["versions"].items()),
        "SETTINGS": markdown(["setting", "value"], [[key, f"{value:g}"] for key, value in chosen.items()]),
        "PROBLEMS": markdown(["problem", "H", "prior sd of the constant mean", "residual", "label posterior"],
                             [[k, *map(str, v)] for k, v in facts["problems"].items()]),
        "GAP": gap_lines(tables["gap"]),
        "SHARE": overconfidence(tables["gap"]),
        "BOUNDS": bound_lines(tables["gap-bounds"]),
        "RANKS": rank_lines(ranks),
        "RANK_SUMMARY": rank_summary(ranks),
        "COVERAGE": coverage_lines(tables["gap-coverage"]),
        "LEVEL": f"{100 * level:.0f} %",
        "WIDEST": ", ".join(f"{100 * r['variational']:.0f} % ({r['problem']})" for r in widest.to_dict("records")),
    }  # fmt: skip
    text = TEXT.read_text(encoding="utf-8")
    for key, value in filled.items():
        text = text.replace(f"<!-- {key} -->", value)
    return text


def changed() -> bool:
    """Whether the checkout differs from its commit where it matters."""
    command = ["git", "status", "--porcelain", "src/psimil", "scripts/write_gap.py"]
    return bool(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())


def main() -> None:
    """Read the arguments, measure unless told not to, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("docs", type=Path)
    parser.add_argument("--page-only", action="store_true", help="write the page from the tables that are there")
    arguments = parser.parse_args()
    folder = arguments.docs / "images"
    if not arguments.page_only:
        settings = Settings()
        folder.mkdir(exist_ok=True)
        found, differs = environment(settings.seed), changed()
        tables = measure(settings)
        versions = {"psimil": found["psimil"], "python": found["python"],
                    **{key: found["packages"][key] for key in ("numpy", "scipy")}}  # fmt: skip
        facts = {"settings": vars(settings), "commit": found["commit"], "changed": differs, "versions": versions,
                 "problems": {k: [str(v[0]), *v[1:]] for k, v in PROBLEMS.items()}}  # fmt: skip
        for name, table in tables.items():
            write_table(table, folder / f"{name}.csv")
        draw(tables["gap"], folder / "gap.png")
        atomic_write(folder / "gap.json", lambda stream: stream.write(json.dumps(facts, indent=1).encode() + b"\n"))
    text = page(folder)
    atomic_write(arguments.docs / "inference-gap.md", lambda stream: stream.write(text.encode()))


if __name__ == "__main__":
    main()
