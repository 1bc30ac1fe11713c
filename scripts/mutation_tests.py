"""Which tests a mutant of a module meets, the most specific first; a folder stands for its modules without a line."""

from pathlib import Path

TESTS = {
    "files/atomic": "atomic storage store_writer",
    "files/schema": "model_file_edges kernel_facts storage_damage storage",
    "files/model_file": "model_file_edges storage_damage storage",
    "store": "store_edges store_import_edges store_writer store_bags store_imports store_damage",
    "store/archive": "store_import_edges store_imports store_damage store_writer",
    "store/chunks": "store_import_edges store_imports store_damage store_writer",
    "store/digest": "store_edges store_blocks store_writer store_damage",
    "store/folders": "store_import_edges store_imports store_writer",
    "store/imports": "store_import_edges store_imports store_writer",
    "store/layout": "store_bags store_writer store_damage",
    "store/manifest": "store_foreign store_blocks store_damage store_bags store_writer store_imports",
    "store/part": "store_edges store_writer store_bags store_imports store_damage",
    "store/reader": "store_edges store_blocks store_bags store_damage store_writer store_imports",
    "store/rows": "store_rows store_bags store_imports store_damage store_writer",
    "store/tabular": "store_import_edges store_imports store_writer",
    "inference": "estimator estimator_training estimator_predict",
    "inference/aggregates": "aggregate_rules calibration prediction moments thresholds estimator_predict",
    "inference/bound": "fitting_loop bound identities pass",
    "inference/calibration": "calibration_optimum calibration prediction estimator_training",
    "inference/collapsed": "streamed_device collapsed kernel_search identities parts device",
    "inference/cross_fit": "folds estimator_training calibration estimator",
    "inference/device_rows": "streamed_device device",
    "inference/fitting": "fitting_loop schedule bound pass identities collapsed parts estimator_training",
    "inference/intervals": "moments prediction estimator_predict properties",
    "inference/joint": "prediction estimator_predict oracle",
    "inference/kernel_search": "kernel_search_steps kernel_pattern kernel_search estimator_training",
    "inference/latent": "prediction identities robustness estimator_predict",
    "inference/learning": "paper_steps climb paper_objective collapsed kernel_search bound estimator_training",
    "inference/leave_one_out": "leave_one_out estimator_training",
    "inference/local_pass": "problem_chunks streamed_device pass bound identities parts log_z device",
    "inference/log_z": "log_z paper_objective collapsed",
    "inference/loo": "leave_one_out kernel_search estimator_training",
    "inference/minibatches": "minibatch_steps parts online estimator_training",
    "inference/moments": "moment_digits moments prediction estimator_predict",
    "inference/monitors": "monitors teaching_edges estimator_training parts",
    "inference/moving_gram": "moving_gram paper_objective estimator_training",
    "inference/online": "online_labels online",
    "inference/options": "option_edges options training_choices streamed_device bad_parameters online",
    "inference/paper_objective": "paper_objective estimator_training",
    "inference/part_tasks": "parts",
    "inference/parts": "parts",
    "inference/posterior": "pass bound identities collapsed prediction",
    "inference/prediction": "teaching_edges prediction moments estimator_predict estimator one_prediction",
    "inference/preparation": "preparation first_kernel online estimator estimator_training",
    "inference/problem": "problem_chunks pass parts collapsed identities estimator_training",
    "inference/sparse_gp": "sparse_gp_edges conditioning pass collapsed identities prediction parts robustness",
    "inference/streamed_training": "streamed_choices streamed_run streamed_sample parts estimator_training",
    "inference/teaching": "teaching teaching_edges estimator_training estimator_predict online estimator",
    "inference/thresholds": "recalibration teaching_edges thresholds estimator_predict estimator_training",
    "inference/trained": "teaching_edges latent_range prediction estimator_predict estimator storage_damage",
    "inference/training": "training_choices fit_stages option_edges estimator_training estimator kernel_search",
    "inference/training_by_size": "training_choices estimator_training parts estimator",
}


def files_for(file: str) -> list[str]:
    """The test files of a module, the most specific first, and the module itself for its doctests."""
    module = str(Path(file).with_suffix(""))
    mapped = TESTS.get(module) or TESTS[str(Path(module).parent)]
    return [*(f"tests/test_{name}.py" for name in mapped.split()), f"src/psimil/{file}"]
