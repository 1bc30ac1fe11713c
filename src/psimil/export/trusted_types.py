"""The types of fitted estimators, for loaders such as skops that ask which types of a file may be made.

skops trusts types of scikit-learn and NumPy by itself, and no package can add its own. Taking what a file asks for
would trust whoever wrote it; this list trusts psimil alone, and none of its types runs code of a file.
"""

TRUSTED_TYPES = (
    "psimil.estimators.instance_wise.InstanceWise",
    "psimil.estimators.multilabel.MultiLabelMIL",
    "psimil.estimators.psi_vgpmil.GVGPMIL",
    "psimil.estimators.psi_vgpmil.PsiVGPMIL",
    "psimil.estimators.psi_vgpmil.VGPMIL",
    "psimil.foundations.hamiltonian.Chains",
    "psimil.inference.online.Online",
    "psimil.inference.out_of_bag.OutOfBag",
    "psimil.model.sparse_gp.Posterior",
    "psimil.model.sparse_gp.SparseGP",
    "psimil.predictive.trained.TrainedModel",
    "psimil.model.densities.GammaMixture",
    "psimil.model.densities.HyperbolicSecant",
    "psimil.model.densities.SmoothLaplace",
    "psimil.model.densities.StudentT",
    "psimil.model.kernels.base.Constant",
    "psimil.model.kernels.base.Linear",
    "psimil.model.kernels.base.Sum",
    "psimil.model.kernels.columns.Columns",
    "psimil.model.kernels.stationary.Matern32",
    "psimil.model.kernels.stationary.Matern52",
    "psimil.model.kernels.stationary.RBF",
    "psimil.model.labels.Classes",
    "psimil.model.scaling.Scaling",
    "psimil.paper.published.ClippedGammaMixture",
    "psimil.paper.published.UnitSparseGP",
    "psimil.predictive.aggregates.Dependence",
    "psimil.predictive.calibration.LatentBags",
    "psimil.predictive.moments.Calibration",
    "psimil.predictive.novelty.Novelty",
    "psimil.predictive.prediction.BagLayout",
    "psimil.predictive.referral.Referral",
    "psimil.predictive.thresholds.InstanceRecalibration",
)
