"""Run tests again as other processors would: OpenBLAS takes its kernels from OPENBLAS_CORETYPE.

Sums come in another order there, so a test that depends on the last bit, or a formula that loses digits, shows.

    python scripts/core_types.py Haswell Nehalem Prescott -- -n 2    # the numerical tests
    python scripts/core_types.py --every -- -n 2                     # all tests, every type that runs here

Each type is tried in a process of its own. Types whose instructions this processor lacks, and types that OpenBLAS
answers with another one, are named and left out; so is the type in use, for the tests have run with it before.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
TYPES = ("Prescott", "Nehalem", "Sandybridge", "Haswell", "Zen", "SkylakeX", "Cooperlake", "Sapphirerapids")
ALIASES = {"Katmai": "Prescott"}  # what OpenBLAS calls the kernels of Prescott
ILLEGAL_INSTRUCTION = (-4, 132, 0xC000001D)  # as POSIX, a shell and Windows say it
VARIABLE = "PSIMIL_CORE_TYPE"  # the type that the tests are to find, see tests/house/test_core_types.py

# test_<name>.py below tests/, of factorisations, passes, bounds, moments, predictions, fits, files, parts and bits
NUMERICAL = """
    core_types linalg sparse_gp_edges conditional_variance conditioning equal_bits kernels kernel_facts densities
    quadrature moments moment_digits moment_tails latent_range pass bound problem_chunks out_of_bag cavities log_z
    bag_likelihoods bag_pass variational moving_gram label_posteriors aggregate_rules calibration thresholds
    prediction robustness inducing fitting_loop algorithm augmented parts storage identities estimator_predict
""".split()
SINGLE = (
    "tests/estimators/test_sklearn.py::test_pickle_and_joblib_keep_a_fitted_model",
    "tests/cluster/test_cluster.py::test_workers_give_the_bits_of_one_process",
)
# Long, and about what is learned or drawn rather than about digits, or of arithmetic without BLAS, or the same
# sums as in a test that stays
LEFT_OUT = (
    "tests/inference/test_parts.py::test_a_streamed_fit_predicts_as_well_as_one_in_memory",
    "tests/inference/test_parts.py::test_minibatches_reach_the_bound_of_whole_passes_in_few",
    "tests/laws/test_robustness.py::test_every_output_is_finite",
    "tests/files/test_storage.py::test_load_gives_equal_bits",
    "tests/files/test_storage.py::test_no_training_rows_in_the_file",
    "tests/paper/test_bound.py::test_chain_of_bounds",
    "tests/paper/test_bound.py::test_copies_of_one_negative_instance",
    "tests/paper/test_bound.py::test_bound_never_falls[1]",
    "tests/paper/test_bound.py::test_bound_never_falls_with_over_relaxed_steps",
    "tests/paper/test_bound.py::test_bound_never_falls_from_random_labels",
    "tests/paper/test_bound.py::test_secant_bound_is_below_zero_at_any_size",
    "tests/paper/test_bound.py::test_without_log_z_nothing_bounds_the_gamma_model",
    "tests/laws/test_equal_bits.py::test_threads_and_repetition_do_not_change_a_bit[chunks]",
    "tests/inference/test_variational.py::test_every_step_raises_the_bound_or_comes_closer",
    "tests/predictive/test_prediction.py::test_joint_std_equals_dense_sampling",
    "tests/inference/test_algorithm.py::test_minibatches_of_the_variational_posterior_come_close_to_its_optimum",
    "tests/inference/test_cavities.py::test_it_comes_close_to_a_fit_without_the_bag",
    "tests/inference/test_log_z.py::test_jensen_is_below_and_fourier_around_the_true_value",
    "tests/paper/test_label_posteriors.py::test_mean_field_sweep_never_lowers_the_bound_where_parallel_updates_do",
    "tests/laws/test_identities.py::test_acceleration_arrives_where_plain_ascent_does",
    "tests/laws/test_identities.py::test_runaway_of_latents_with_the_number_of_instances",
    "tests/estimators/test_estimator_predict.py::test_sampling_agrees_within_its_error",
    "tests/estimators/test_estimator_predict.py::test_joint_std_keeps_the_correlation",
    "tests/model/test_bag_likelihoods.py::test_extremes_equal_arithmetic_with_hundreds_of_digits",
)

PROBE = """
import json, numpy, scipy.linalg
from threadpoolctl import threadpool_info
for dtype in (numpy.float32, numpy.float64):
    A = numpy.random.default_rng(0).normal(size=(70, 70)).astype(dtype)
    scipy.linalg.cho_factor(A @ A.T + 70 * numpy.eye(70, dtype=dtype)), A @ A[0], A[0] @ A[1]
print(json.dumps(sorted({found["architecture"] for found in threadpool_info() if "architecture" in found})))
"""


def environment(name: str | None) -> dict[str, str]:
    """The environment of a process in which OpenBLAS is of this type; None for the type in use."""
    return dict(os.environ) if name is None else {**os.environ, "OPENBLAS_CORETYPE": name, VARIABLE: name}


def found_types(libraries: list[dict[str, str]]) -> set[str]:
    """The core types of the BLAS libraries that threadpoolctl lists."""
    names = (library["architecture"] for library in libraries if "architecture" in library)
    return {ALIASES.get(name, name) for name in names}


def probe(name: str | None) -> set[str] | None:
    """The types that OpenBLAS has in a process of this type; None where its instructions are missing."""
    command = [sys.executable, "-c", PROBE]
    done = subprocess.run(command, env=environment(name), capture_output=True, text=True, check=False)
    if done.returncode in ILLEGAL_INSTRUCTION:
        return None
    done.check_returncode()
    return found_types([{"architecture": found} for found in json.loads(done.stdout)])


def that_run(names: list[str]) -> list[str]:
    """Those of the types that run here and are not in use; says which are left out, and why."""
    own, kept = probe(None), []
    for name in names:
        found = probe(name)
        if found is None:
            print(f"{name}: left out, this processor lacks its instructions.")
        elif found != {name}:
            print(f"{name}: left out, OpenBLAS answers {' and '.join(sorted(found)) or 'nothing'}.")
        elif found == own:
            print(f"{name}: left out, it is the type in use and was tested as such.")
        else:
            kept.append(name)
    return kept


def numerical() -> list[str]:
    """The numerical tests, as arguments of pytest."""
    left_out = [f"--deselect={name}" for name in LEFT_OUT]
    files = {path.stem: str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")}
    return [*(files[f"test_{name}"] for name in NUMERICAL), *SINGLE, *left_out]


def main() -> int:
    """Status 1 if a test fails under any type, or if an x86 processor runs none of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("types", nargs="*", choices=[*TYPES, []], help="core types of OpenBLAS")
    parser.add_argument("--every", action="store_true", help="all tests, under every type that runs here")
    parser.add_argument("--show", action="store_true", help="only say which types run here")
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    given, more = parser.parse_args(sys.argv[1:split]), sys.argv[split + 1 :]
    wanted = list(TYPES) if given.every or not given.types else given.types
    if not probe(None):
        print("NumPy and SciPy do not use OpenBLAS here: there are no core types to test.")
        return 0
    kept = that_run(wanted)
    print(f"core types: {' '.join(kept) or 'none'}", flush=True)
    if given.show:
        return 0
    files = [] if given.every else numerical()
    failed = []
    for name in kept:
        print(f"== {name}", flush=True)
        command = [sys.executable, "-m", "pytest", "-q", *more, *files]
        if subprocess.run(command, cwd=ROOT, env=environment(name), check=False).returncode:
            failed.append(name)
    if failed:
        print(f"tests failed under {' '.join(failed)}; try OPENBLAS_CORETYPE={failed[0]} make test")
    nothing = platform.machine().lower() in {"x86_64", "amd64"} and not kept
    return int(bool(failed) or nothing)


if __name__ == "__main__":
    sys.exit(main())
