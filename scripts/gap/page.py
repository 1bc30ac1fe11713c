"""docs/mathematics/inference-gap.md from the tables that were measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from gap.real import over_seeds
from gap.referring import SYNTHETIC, referral_summary
from gap.simulated import LEVELS, METHODS

TEXT = Path(__file__).with_name("text.md")
NAMES = {"augmented": "augmented", "variational": "variational", "sampled": "sampled", "oracle": "Gibbs oracle"}


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    return "\n".join(f"| {' | '.join(line)} |" for line in [heads, ["---"] * len(heads), *rows])


def coverage_lines(summary: pd.DataFrame, x: str, label: str) -> str:
    """Coverage at each level, deviation ratio and error of probabilities, by size or number of bags and posterior."""
    rows = []
    for row in _ordered(summary, x):
        shares = [f"{row[f'inside_{100 * n:.0f}']:.3f} ± {row[f'inside_{100 * n:.0f}_error']:.3f}" for n in LEVELS]
        rows.append([f"{row[x]}", NAMES[row["posterior"]], f"{row['data_sets']} ({row['compared']})", *shares,
                     f"{row['difference']:+.3f} ± {row['difference_error']:.3f}", f"{row['ratio']:.2f}",
                     f"{row['probability_error']:.4f}", f"{row['seconds']:.2f}"])  # fmt: skip
    heads = [label, "posterior", "data sets", *(f"{100 * n:.0f} % intervals hold" for n in LEVELS),
             "95 %: less the oracle", "deviation ratio", "error of probabilities", "seconds"]  # fmt: skip
    return markdown(heads, rows)


def mixing_lines(*summaries: pd.DataFrame) -> str:
    """R-hat and effective sample size of both samplers."""
    rows = []
    for summary in summaries:
        for row in _ordered(summary[summary["r_hat"].notna()], "largest_bag", "bags"):
            rows.append([str(row["bags"]), str(row["largest_bag"]), NAMES[row["posterior"]], f"{row['r_hat']:.3f}",
                         f"{row['effective']:.0f}"])  # fmt: skip
    return markdown(
        ["bags", "of up to", "sampler", "R-hat, 95 % of data sets below", "effective size, 95 % above"], rows
    )


def _ordered(summary: pd.DataFrame, *by: str) -> list[dict[str, Any]]:
    order = summary.assign(place=summary["posterior"].map(METHODS.index)).sort_values([*by, "place"])
    return order.to_dict("records")


def widest(summary: pd.DataFrame, name: str) -> str:
    """Coverage of 95 % intervals of a posterior by bag size, in words."""
    part = summary[summary["posterior"] == name].sort_values("largest_bag")
    return " / ".join(f"{100 * value:.0f}" for value in part["inside_95"]) + " %"


def sizes(summary: pd.DataFrame) -> str:
    """The sizes of bags, in words."""
    return " / ".join(str(value) for value in sorted(summary["largest_bag"].unique()))


def real_lines(table: pd.DataFrame) -> str:
    """Distance from long sampling on real data, by data set and posterior: means over seeds, and their range."""
    rows = []
    for data, part in over_seeds(table).groupby("data", sort=False):
        worst = float(part.loc[part["posterior"] == "augmented", "probability_error"].iloc[0])
        for row in part.to_dict("records"):
            several = row["seeds"] > 1
            ratios = f" ({row['ratio_least']:.2f} to {row['ratio_most']:.2f})" if several else ""
            errors = (
                f" ({row['probability_error_least']:.4f} to {row['probability_error_most']:.4f})" if several else ""
            )
            rows.append([str(data), row["posterior"], f"{row['seeds']}", f"{row['ratio']:.2f}{ratios}",
                         f"{row['ratio_low']:.2f} to {row['ratio_high']:.2f}", f"{row['mean_error']:.3f}",
                         f"{row['probability_error']:.4f}{errors}", f"{row['probability_error'] / worst:.2f}",
                         f"{row['seconds']:.1f}"])  # fmt: skip
    heads = ["data", "posterior", "seeds", "deviation ratio, median (range over seeds)", "its tenths over instances",
             "error of latent means", "error of probabilities (range)", "over the augmented one's",
             "seconds"]  # fmt: skip
    return markdown(heads, rows)


def sampling_lines(table: pd.DataFrame) -> str:
    """What was trained on, and how well long sampling mixed."""
    rows = [[row["data"], str(row["training_bags"]), str(row["training_instances"]), str(row["held_out_instances"]),
             str(row["inducing"]), str(row["draws"]), f"{row['r_hat']:.3f}", f"{row['effective']:.0f}",
             str(row["divergences"]), f"{row['sampling_error']:.4f}", f"{row['sampling_seconds']:.0f}"]
            for row in table.drop_duplicates("data").to_dict("records")]  # fmt: skip
    heads = ["data", "training bags", "their instances", "held-out instances", "inducing points", "draws", "R-hat",
             "effective size", "divergences", "Monte Carlo error of probabilities", "seconds"]  # fmt: skip
    return markdown(heads, rows)


def bound_lines(table: pd.DataFrame) -> str:
    """How far bounds lie below log p(T), in nats per bag: means over seeds."""
    rows = []
    for name, part in table.groupby("problem", sort=False):
        gaps = [((part["log_p"] - part[key]) / part["bags"]).mean() for key in ("variational", "exact", "mean_field")]
        shown = ["" if pd.isna(value) else f"{value:.3f}" for value in gaps]
        rows.append([str(name), str(len(part)), f"{part['log_p'].mean():.3f}", *shown, f"{part['error'].max():.3f}",
                     f"{part['effective_samples'].min():.0f}"])  # fmt: skip
    heads = ["problem", "data sets", "log p(T)", "variational, per bag", "augmented, exact labels, per bag",
             "augmented, mean field, per bag", "largest error of log p(T)", "fewest effective samples"]  # fmt: skip
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


def referral_lines(curves: pd.DataFrame, fits: pd.DataFrame) -> str:
    """Error among the kept by share referred, the area under the curve, and what ``refer`` itself catches."""
    rows, areas = [], fits.groupby(["data", "model"])[["area", "test_bags", "errors", "referred", "errors_referred"]]
    sums, means = areas.sum(), areas.mean()
    for row in referral_summary(curves).to_dict("records"):
        key = (row.pop("data"), row.pop("model"))
        total = sums.loc[key]
        caught = f"{total['errors_referred']:.0f} of {total['errors']:.0f}"
        rows.append([*key, *(f"{100 * value:.1f} %" for value in row.values()), f"{means.loc[key, 'area']:.4f}",
                     f"{total['referred']:.0f} of {total['test_bags']:.0f}", caught])  # fmt: skip
    shares = [name for name in referral_summary(curves) if name not in ("data", "model")]
    heads = ["data", "model", *(f"error, {share} % referred" for share in shares), "area",
             "`refer` refers", "and catches errors"]  # fmt: skip
    return markdown(heads, rows)


def facts_lines(facts: dict[str, Any]) -> str:
    """Commit, versions and settings of every part of the page."""
    rows = []
    for part, one in facts.items():
        versions = ", ".join(f"{key} {value}" for key, value in one["versions"].items())
        commit = f"`{(one['commit'] or 'unknown')[:10]}`" + (" with changes on top" if one["changed"] else "")
        settings = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in one["settings"].items())
        rows.append([part, commit, versions, settings])
    return markdown(["part", "commit", "versions", "settings"], rows)


def page(tables: dict[str, pd.DataFrame], facts: dict[str, Any]) -> str:
    """The page, from tables and facts."""
    size, number = tables["gap-size-summary"], tables["gap-number-summary"]
    referred, missing = tables["gap-referred"], facts["real"].get("left_out", [])
    said = f" Left out here, since their files were not given: {', '.join(missing)}." if missing else ""
    filled = {
        "SIZES": sizes(size),
        **{f"WIDEST_{name.upper()}": widest(size, name) for name in METHODS},
        "SIZE": coverage_lines(size, "largest_bag", "bags of up to"),
        "NUMBER": coverage_lines(number, "bags", "bags"),
        "MIXING": mixing_lines(size, number),
        "INDUCING": f"{facts['real']['settings']['inducing']}",
        "HELD_OUT": f"{100 * facts['real']['settings']['held_out']:.0f} %",
        "REAL": real_lines(tables["gap-real"]),
        "SAMPLING": sampling_lines(tables["gap-real"]),
        "LEFT_OUT": said,
        "REFERRAL": referral_lines(tables["gap-referral"], referred),
        "REPEATS": str(referred.loc[referred["data"] == SYNTHETIC, "repeat"].nunique()),
        "BOUNDS": bound_lines(tables["gap-bounds"]),
        "RANKS": rank_lines(tables["gap-ranks"]),
        "RANK_SUMMARY": rank_summary(tables["gap-ranks"]),
        "FACTS": facts_lines(facts),
    }
    text = TEXT.read_text(encoding="utf-8")
    for key, value in filled.items():
        text = text.replace(f"<!-- {key} -->", value)
    return text
