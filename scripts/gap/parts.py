"""The parts of the page, each with its settings: what is measured, how long, and with which code."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from gap.ranks import RankSettings, rank_rows
from gap.real import COHORTS, EMBEDDED, RealSettings, real_rows
from gap.referring import ReferralSettings, referral_rows
from gap.simulated import CHANGES_COUNT, CHANGES_SIZE, Simulation, bound_rows, coverage_summary, simulated_rows
from psimil.files.csv_table import write_table
from psimil.files.environment import environment

ROOT = Path(__file__).resolve().parents[2]
Tables = dict[str, list[dict[str, Any]]]

TABLES = ("gap-size", "gap-number", "gap-real", "gap-referral", "gap-referred", "gap-bounds", "gap-ranks")
DIGITS = 5


@dataclass(frozen=True)
class Settings:
    """What is measured, and how long."""

    largest_bags: tuple[int, ...] = (5, 12, 35)
    numbers: tuple[int, ...] = (10, 60, 300)
    simulation: Simulation = field(default_factory=Simulation)
    fewer_layouts: int = 4  # where the number of bags changes
    small: Simulation = field(default_factory=lambda: Simulation(bags=10))  # of ranks and bounds
    ranks: RankSettings = field(default_factory=RankSettings)
    bound_seeds: int = 5
    bound_chains: int = 100
    bound_draws: int = 200
    real: RealSettings = field(default_factory=RealSettings)
    referral: ReferralSettings = field(default_factory=ReferralSettings)
    quick: bool = False


QUICK = Settings(
    largest_bags=(2,),
    numbers=(4,),
    simulation=Simulation(1, 2, 1, bags=5, new_bags=3, inducing=3, long_chains=4, long_draws=16, oracle_chains=2,
                          oracle_burn_in=5, oracle_draws=8, oracle_thin=1),
    fewer_layouts=1,
    small=Simulation(bags=3, largest_bag=2, inducing=2),
    ranks=RankSettings(50, 9, 1),
    bound_seeds=1,
    bound_chains=4,
    bound_draws=20,
    real=RealSettings(inducing=10, instances=20, chains=4, draws=16, seeds=2),
    referral=ReferralSettings(20, 40, 1, inducing=10, shares=10),
    quick=True,
)  # fmt: skip


def measure_size(settings: Settings, data: str | None) -> Tables:
    """Data from the model, by the size of bags."""
    chosen = [replace(settings.simulation, largest_bag=largest) for largest in settings.largest_bags]
    return {"gap-size": [row for one in chosen for row in simulated_rows(one, CHANGES_SIZE)]}


def measure_number(settings: Settings, data: str | None) -> Tables:
    """Data from the model, by the number of bags."""
    chosen = [replace(settings.simulation, bags=n, layouts=settings.fewer_layouts) for n in settings.numbers]
    return {"gap-number": [row for one in chosen for row in simulated_rows(one, CHANGES_COUNT)]}


def measure_real(settings: Settings, data: str | None) -> Tables:
    """Real data; those that are not embedded only where their folder is given."""
    names = [name for name in COHORTS if data is not None or name in EMBEDDED]
    return {"gap-real": [row for name in names for row in real_rows(name, data, settings.real, settings.quick)]}


def measure_referral(settings: Settings, data: str | None) -> Tables:
    """Referral curves."""
    curves, fits = referral_rows(data, settings.referral)
    return {"gap-referral": curves, "gap-referred": fits}


def measure_oracle(settings: Settings, data: str | None) -> Tables:
    """Ranks of the oracle, and bounds against log p(T)."""
    bounds = bound_rows(settings.small, settings.bound_seeds, settings.bound_chains, settings.bound_draws)
    return {"gap-bounds": bounds, "gap-ranks": rank_rows(settings.small, settings.ranks)}


PARTS: dict[str, tuple[Callable[[Settings, str | None], Tables], Callable[[Settings], dict[str, Any]]]] = {
    "size": (measure_size, lambda s: {"largest bags": s.largest_bags, **asdict(s.simulation)}),
    "number": (measure_number, lambda s: {"numbers": s.numbers, **asdict(s.simulation), "layouts": s.fewer_layouts}),
    "real": (measure_real, lambda s: asdict(s.real)),
    "referral": (measure_referral, lambda s: asdict(s.referral)),
    "oracle": (measure_oracle, lambda s: {**asdict(s.small), **asdict(s.ranks), "bound_seeds": s.bound_seeds,
                                          "bound_chains": s.bound_chains, "bound_draws": s.bound_draws}),
}  # fmt: skip


def changed() -> bool:
    """Whether the checkout differs from its commit where it matters."""
    command = ["git", "status", "--porcelain", "src/psimil", "scripts/write_gap.py", "scripts/gap"]
    return bool(subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.strip())


def measure(part: str, settings: Settings, data: str | None, folder: Path) -> dict[str, Any]:
    """Write the tables of a part; commit, versions and settings behind them."""
    run, told = PARTS[part]
    found, differs = environment(), changed()
    for name, rows in run(settings, data).items():
        write_table(pd.DataFrame(rows).round(DIGITS), folder / f"{name}.csv")
    versions = {"psimil": found["psimil"], "python": found["python"],
                **{key: found["packages"][key] for key in ("numpy", "scipy")}}  # fmt: skip
    left_out = [COHORTS[name] for name in COHORTS if data is None and name not in EMBEDDED] if part == "real" else []
    return {"commit": found["commit"], "changed": differs, "versions": versions, "settings": told(settings),
            "left_out": left_out}  # fmt: skip


def read_tables(folder: Path) -> dict[str, pd.DataFrame]:
    """The tables in a folder, with summaries of those that have a row for each data set."""
    tables = {name: pd.read_csv(folder / f"{name}.csv") for name in TABLES}
    return tables | {f"{name}-summary": coverage_summary(tables[name]) for name in ("gap-size", "gap-number")}
