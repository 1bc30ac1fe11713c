"""Estimators whose predictions have one fault each: hard bags, invariances, instances, uncertainty."""

import numpy as np
from scipy.special import expit

from broken_estimators import fails, moved
from prototype import PrototypeMIL

# ---------------------------------------------------------------- hard bags and invariances


@fails("check_one_bag", "check_two_bags", "check_one_instance_bags", "check_one_class", "check_one_bag_of_a_class",
       "check_duplicate_instances", "check_duplicate_bags", "check_constant_features", "check_single_feature",
       "check_more_features_than_instances", "check_units_of_features", "check_large_bag")  # fmt: skip
class NaNForHardBags(PrototypeMIL):
    def fit(self, bags, y=None, bag_ids=None):
        super().fit(bags, y, bag_ids)
        X, sizes = np.concatenate(list(bags)), [len(bag) for bag in bags]
        distinct = len(np.unique(X, axis=0)) == len(X) < 500 and X.shape[1] == 3
        usual = 0.1 < X.std(axis=0).min() and X.std(axis=0).max() < 10 and 1 < max(sizes)
        if not (distinct and usual and 1 < np.sum(y) < len(y) - 1):
            self.line_ = self.line_ * np.nan
        return self


@fails("check_distant_bags", "check_interval_far_away", "check_company_of_extremes")
class NaNFarAway(PrototypeMIL):
    def _score(self, found):
        score = super()._score(found)
        return score if np.abs(found.X).max() < 100 else score * np.nan


@fails("check_bag_order_invariance", "check_methods_subset_invariance", "check_equal_bags",
       "check_interval_order_invariance")  # fmt: skip
class CountsBags(PrototypeMIL):
    def _score(self, found):
        return super()._score(found) + 0.05 * found.bag_index


@fails("check_bag_order_invariance", "check_methods_subset_invariance")
class CountsBagsOfInstances(PrototypeMIL):
    def predict_instances(self, bags, bag_ids=None):
        found = super().predict_instances(bags, bag_ids)
        return [part / (1 + 0.01 * number) for number, part in enumerate(found)]


@fails("check_bag_order_invariance", "check_methods_subset_invariance")
class LessCertainOfLaterBags(PrototypeMIL):
    def predict_dist(self, bags, bag_ids=None):
        found = super().predict_dist(bags, bag_ids)
        return moved(found, std=found.std / (1 + 0.01 * np.arange(len(found.std))))


@fails("check_instance_order_invariance", "check_instances_follow_their_rows", "check_equal_instances",
       "check_instance_std_follows_rows")  # fmt: skip
class CountsInstances(PrototypeMIL):
    def _score(self, found):
        return super()._score(found) + 0.05 * (np.arange(len(found.X)) - found.offsets[found.bag_index])


@fails("check_methods_subset_invariance", "check_company_of_extremes")
class CentresTheBatch(PrototypeMIL):
    def _score(self, found):
        score = super()._score(found)
        return score - score.mean()


@fails("check_training_order")
class TrustsTheOrder(PrototypeMIL):
    def fit(self, bags, y=None, bag_ids=None):
        super().fit(bags, y, bag_ids)
        if np.array_equal(np.ravel(y), np.sort(np.ravel(y))):
            self.line_ = -self.line_
        return self


@fails("check_feature_permutation")
class LooksAtTheLastFeature(PrototypeMIL):
    def fit(self, bags, y=None, bag_ids=None):
        super().fit(bags, y, bag_ids)
        self.line_ = np.where(np.arange(len(self.line_)) == len(self.line_) - 1, self.line_, 0.0)
        return self


# ---------------------------------------------------------------- instances


@fails("check_instances_per_bag", "check_instances_length")
class FlatInstances(PrototypeMIL):
    def predict_instances(self, bags, bag_ids=None):
        return [np.concatenate(super().predict_instances(bags, bag_ids))]


@fails("check_instances_range", "check_instance_dist_agrees", "check_bag_of_one_instance")
class InstanceOdds(PrototypeMIL):
    def predict_instances(self, bags, bag_ids=None):
        return [p / (1 - p) for p in super().predict_instances(bags, bag_ids)]


@fails("check_instances_rank", "check_bag_of_one_instance")
class InstancesUpsideDown(PrototypeMIL):
    def predict_instances(self, bags, bag_ids=None):
        return [1 - p for p in super().predict_instances(bags, bag_ids)]


@fails("check_bag_at_least_its_instances", "check_more_instances_never_lower_a_bag")
class MeanOfInstances(PrototypeMIL):
    def predict_dist(self, bags, bag_ids=None):
        found = super().predict_dist(bags, bag_ids)
        return moved(found, prob=np.array([part.mean() for part in found.split(found.instance_prob)]))


@fails("check_bag_at_most_sum_of_instances", "check_bag_of_one_instance")
class OverstatesBags(PrototypeMIL):
    def predict_dist(self, bags, bag_ids=None):
        found = super().predict_dist(bags, bag_ids)
        return moved(found, prob=expit(found.score + 1.0))


# ---------------------------------------------------------------- uncertainty


@fails("check_dist_shapes", "check_instance_dist_shapes")
class TableOfMoments(PrototypeMIL):
    def predict_dist(self, bags, bag_ids=None):
        found = super().predict_dist(bags, bag_ids)
        return moved(found, std=found.std[:, None], instance_std=found.instance_std[:, None])


@fails("check_dist_agrees_with_proba")
class TwoOpinions(PrototypeMIL):
    def predict_proba(self, bags, bag_ids=None):
        prob = super().predict_proba(bags, bag_ids)
        return prob**2 / (prob**2).sum(axis=1, keepdims=True)


@fails("check_std_not_negative", "check_instance_std_possible")
class NegativeStd(PrototypeMIL):
    def predict_dist(self, bags, bag_ids=None):
        found = super().predict_dist(bags, bag_ids)
        return moved(found, std=-found.std, instance_std=-found.instance_std)


@fails("check_std_possible", "check_instance_std_possible", "check_bag_of_one_instance_std")
class ImpossibleStd(PrototypeMIL):
    def predict_dist(self, bags, bag_ids=None):
        found = super().predict_dist(bags, bag_ids)
        return moved(found, std=0 * found.std + 0.6, instance_std=0 * found.instance_std + 0.7)


@fails("check_std_somewhere", "check_interval_has_width")
class Certain(PrototypeMIL):
    def predict_dist(self, bags, bag_ids=None):
        found = super().predict_dist(bags, bag_ids)
        return moved(found, std=0 * found.std)


@fails("check_interval_has_width", "check_interval_contains_prob", "check_instance_interval")
class NoWidth(PrototypeMIL):
    def predict_dist(self, bags, bag_ids=None):
        found = super().predict_dist(bags, bag_ids)
        return moved(found, upper=found.lower, instance_upper=found.instance_lower)


@fails("check_interval_ordered", "check_instance_interval")
class UpsideDownIntervals(PrototypeMIL):
    def predict_dist(self, bags, bag_ids=None):
        found = super().predict_dist(bags, bag_ids)
        ends = {"lower": found.upper, "upper": found.lower}
        return moved(found, **ends, instance_lower=found.instance_upper, instance_upper=found.instance_lower)


@fails("check_interval_range", "check_instance_interval")
class GaussianIntervals(PrototypeMIL):
    def predict_dist(self, bags, bag_ids=None):
        found = super().predict_dist(bags, bag_ids)
        low, high = found.instance_prob - 0.7, found.instance_prob + 0.7
        return moved(found, lower=found.prob - 0.7, upper=found.prob + 0.7, instance_lower=low, instance_upper=high)
