"""Which tests a mutant of a module meets, the most specific first."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

TESTS = {
    "files/atomic": "atomic storage store_writer",
    "files/schema": "model_file_edges kernel_facts storage_damage storage",
    "files/model_file": "model_file_edges storage_damage storage",
    "store": "store_edges store_import_edges store_writer store_bags store_imports store_damage",
    "data": "tables tables_damage feature_columns delimited columns store_import_edges store_imports",
    "data/archives": "store_import_edges tables_damage store_imports tables store_damage",
    "data/torch_file": "torch_file datasets_h5",
    "data/tabular": "store_import_edges store_imports tables columns store_writer",
    "store/bag_folders": "torchmil_folder store_imports store_import_edges",
    "store/digest": "store_edges store_blocks store_writer store_damage",
    "store/manifest": "store_foreign store_blocks store_damage store_bags store_writer store_imports",
    "store/segment": "store_edges store_writer store_bags store_imports store_damage",
    "store/reader": "store_edges store_blocks store_bags store_damage store_writer store_imports",
    "store/rows": "store_rows store_bags store_imports store_damage store_writer",
    "store/tables": "tables store_import_edges store_imports store_writer",
    "compute": "linalg device equal_bits identities pass",
    "compute/numpy_backend": "problem_chunks bag_pass linalg equal_bits identities pass",
    "compute/torch_backend": "streamed_device device",
    "estimators/parameters": "option_edges bad_parameters training_choices streamed_device estimator",
    "inference": "estimator estimator_training estimator_predict",
    "predictive": "estimator_predict estimator",
    "predictive/aggregates": "aggregate_rules moments calibration prediction estimator_predict",
    "inference/algorithm": "algorithm monitors fitting_loop teaching_edges progress online estimator_training",
    "inference/bag_pass": "bag_pass variational algorithm parts estimator_training",
    "inference/draws": "draws bag_pass variational",
    "predictive/calibration": "calibration_optimum calibration prediction estimator_training",
    "inference/out_of_bag": "out_of_bag cavities estimator",
    "predictive/moments": "moment_digits aggregate_rules moments calibration prediction thresholds estimator_predict",
    "inference/online": "online_labels online",
    "inference/options": "option_edges options training_choices streamed_run streamed_device bad_parameters online",
    "predictive/prediction": "teaching_edges prediction moments estimator_predict estimator one_prediction",
    "inference/preparation": "streamed_choices streamed_sample preparation training_choices first_kernel estimator",
    "inference/shards": "problem_chunks streamed_choices pass parts identities estimator_training",
    "model/sparse_gp": "sparse_gp_edges conditioning pass bound identities prediction parts robustness",
    "predictive/thresholds": "recalibration teaching teaching_edges thresholds estimator_predict estimator_training",
    "predictive/trained": "sampled_posterior teaching_edges latent_range prediction estimator_predict estimator",
    "predictive/torch_gp": "torch_gp heads",
    "inference/training": "training_choices options streamed_run fit_stages option_edges estimator_training",
    "inference/variational": "variational tilted_posterior sites bag_pass algorithm online estimator_training",
    "model/bag_likelihoods": "bag_likelihoods bag_pass variational",
    "model/scaling": "scaling parts preparation robustness",
    "paper": "presets estimator_training",
    "paper/fourier_log_z": "log_z paper_objective",
    "paper/ascent": "fitting_loop schedule bound pass identities estimator_training",
    "paper/augmented": "augmented fit_stages training_choices parts online estimator_training",
    "paper/kernel_steps": "paper_steps paper_objective option_edges bound estimator_training",
    "paper/moving_gram": "moving_gram paper_objective estimator_training",
    "paper/objective": "paper_objective estimator_training",
    "paper/label_posteriors": "label_posteriors pass bound identities",
    "paper/natural_steps": "augmented parts online pass",
    "paper/passes": "problem_chunks streamed_device pass fitting_loop bound identities parts log_z device",
    "paper/published": "label_posteriors pass api_parts estimator_training",
}


def files_for(file: str) -> list[str]:
    """The test files of a module, the most specific first, and the module itself for its doctests.

    Those that its line names, or where it has none those of its folder's line after the tests of its folder that import
    it; then all others that import it. Where there are none of all these: the tests of its folder, small ones first.
    """
    module = Path(file).with_suffix("")
    paths = {path.stem.removeprefix("test_"): path for path in sorted((ROOT / "tests").rglob("test_*.py"))}
    texts, folder = {name: path.read_text() for name, path in paths.items()}, ROOT / "tests" / module.parent
    imported = f"psimil.{str(module).replace('/', '.')} import"
    here = [name for name, path in paths.items() if path.parent == folder]
    here.sort(key=lambda name: len(texts[name]))
    if str(module) in TESTS:
        names = TESTS[str(module)].split()
    else:
        names = [name for name in here if imported in texts[name]] + TESTS.get(str(module.parent), "").split()
    names += [name for name in texts if imported in texts[name] and "house" not in str(paths[name])]
    names = names or here
    return [*(str(paths[name].relative_to(ROOT)) for name in dict.fromkeys(names)), f"src/psimil/{file}"]
