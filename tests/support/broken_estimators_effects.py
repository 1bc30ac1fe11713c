"""Estimators with one fault each in what they repeat, touch, accept and refuse."""

import random
import threading

import numpy as np

from broken_estimators import fails
from prototype import PrototypeMIL
from psimil.foundations.errors import InputError
from psimil.model.bags import Bags

# ---------------------------------------------------------------- repetition and side effects


@fails("check_fit_determinism", "check_fit_idempotent", "check_global_random_state", "check_random_state_instance")
class GlobalSeed(PrototypeMIL):
    def fit(self, bags, y=None, bag_ids=None):
        super().fit(bags, y, bag_ids)
        self.line_ = self.line_ + 0.1 * np.random.standard_normal(self.line_.shape) * random.random()
        return self


@fails("check_random_state_none")
class NeedsASeed(PrototypeMIL):
    def fit(self, bags, y=None, bag_ids=None):
        if self.random_state is None:
            raise ValueError("random_state is missing.")
        return super().fit(bags, y, bag_ids)


@fails("check_repeated_predict", "check_predict_has_no_memory", "check_dict_unchanged", "check_dist_repeated",
       "check_predict_in_threads", "check_results_are_the_callers")  # fmt: skip
class Tires(PrototypeMIL):
    def _score(self, found):
        self.asked_ = getattr(self, "asked_", 0) + 1
        return super()._score(found) - 0.01 * self.asked_


@fails("check_predict_in_threads")
class OneThreadOnly(PrototypeMIL):
    def _score(self, found):
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("not here")
        return super()._score(found)


@fails("check_fit_leaves_bags", "check_fit_leaves_labels", "check_readonly_memmap_input")
class WritesIntoTrainingBags(PrototypeMIL):
    def fit(self, bags, y=None, bag_ids=None):
        super().fit(bags, y, bag_ids)
        for bag in bags:
            bag[:] = bag - 1.0
        y[:] = 0
        return self


@fails("check_predict_leaves_bags")
class WritesIntoBags(PrototypeMIL):
    def _read(self, bags, bag_ids=None):
        found = super()._read(bags, bag_ids)
        for bag in bags:
            bag[:] = 1.5 * bag
        return found


@fails("check_fit_copies_what_it_keeps")
class KeepsTrainingBags(PrototypeMIL):
    def fit(self, bags, y=None, bag_ids=None):
        super().fit(bags, y, bag_ids)
        self.bags_ = bags
        return self

    def _score(self, found):
        return super()._score(found) - 1e-3 * float(np.abs(np.concatenate(list(self.bags_))).max())


@fails("check_results_are_the_callers")
class SharesItsResult(PrototypeMIL):
    def predict_proba(self, bags, bag_ids=None):
        key = self._read(bags, bag_ids).X.tobytes()
        if not hasattr(self, "cache_"):
            self.cache_ = {}
        return self.cache_.setdefault(key, super().predict_proba(bags, bag_ids))


@fails("check_silence")
class Talks(PrototypeMIL):
    def fit(self, bags, y=None, bag_ids=None):
        print("fitting")
        return super().fit(bags, y, bag_ids)


@fails("check_deep_copy", "check_deep_copy_of_unfitted")
class CopiesBadly(PrototypeMIL):
    def __deepcopy__(self, memo):
        copy = PrototypeMIL(sharpness=1.0)
        if hasattr(self, "line_"):
            copy.fit([[[0.0] * 3], [[1.0] * 3]], [0, 1])
        return copy


@fails("check_save_load")
class SavesRounded(PrototypeMIL):
    def save(self, path):
        self.line_ = self.line_.astype(np.float32)
        super().save(path)
        self.line_ = self.line_ * 1.0000001


# ---------------------------------------------------------------- forms and refusals


@fails("check_bags_as_tuple", "check_bags_as_nested_lists", "check_bags_as_object_array", "check_bags_as_3d_array",
       "check_bags_object", "check_bag_names", "check_bags_as_frames", "check_fortran_order", "check_strided_input",
       "check_byte_order", "check_float32_input", "check_integer_input", "check_rows_with_bag_ids",
       "check_integer_labels", "check_bool_labels", "check_float_labels", "check_list_labels", "check_pandas_labels",
       "check_supervised_y_2d", "check_instances_of_rows")  # fmt: skip
class TakesOneFormOnly(PrototypeMIL):
    def _check(self, bags, bag_ids):
        plain = type(bags) is list and bag_ids is None
        if not plain or any(
            type(b) is not np.ndarray or b.dtype.str != "<f8" or not b.flags.c_contiguous for b in bags
        ):
            raise TypeError("not a list of contiguous arrays of doubles")

    def fit(self, bags, y=None, bag_ids=None):
        self._check(bags, bag_ids)
        if type(y) is not np.ndarray or y.dtype != np.int64 or y.ndim != 1:
            raise TypeError("not an array of integers")
        return super().fit(bags, y, bag_ids)

    def _read(self, bags, bag_ids=None):
        if hasattr(self, "line_"):
            self._check(bags, bag_ids)
        return super()._read(bags, bag_ids)


@fails("check_estimators_nan_inf", "check_estimators_empty_data_messages", "check_empty_bag", "check_no_features",
       "check_different_n_features", "check_n_features_in_after_fitting", "check_bags_of_wrong_dimension",
       "check_ragged_bag", "check_complex_data", "check_text_data", "check_sparse_data", "check_not_a_sequence",
       "check_requires_y_none", "check_label_count_mismatch", "check_wrong_labels", "check_missing_labels",
       "check_text_labels", "check_labels_of_wrong_dimension")  # fmt: skip
class AcceptsEverything(PrototypeMIL):
    def fit(self, bags, y=None, bag_ids=None):
        try:
            return super().fit(bags, y, bag_ids)
        except (InputError, TypeError, ValueError):
            return super().fit([[[0.0] * 3], [[1.0] * 3]], [0, 1])

    def _read(self, bags, bag_ids=None):
        try:
            return super()._read(bags, bag_ids)
        except (InputError, TypeError, ValueError):
            return Bags.from_list([np.zeros((1, self.n_features_in_))])
