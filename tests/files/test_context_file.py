"""Model files of models that see instances in context, and of those from before there were any."""

import numpy as np
import pytest

from model_files import put_together, take_apart
from psimil import Bags, PsiVGPMIL
from psimil.files.model_file import load_model
from psimil.foundations.errors import ModelFileError
from tiny import brief, problem


def saved(path, **parameters):
    bags, y, _ = problem()
    model = brief(**parameters).fit(Bags(bags.X, bags.offsets, feature_names=["a", "b", "c"]), y)
    model.save(path)
    return model, bags


@pytest.mark.parametrize("context", ["bag", "auto"])
def test_a_model_in_context_comes_back(tmp_path, context):
    path = tmp_path / "model.safetensors"
    model, bags = saved(path, context=context, hyperparameters="bound")
    again = PsiVGPMIL.load(path)
    assert (again.model_.context, again.context) == (model.model_.context, context)
    assert again.model_.context_evidence == model.model_.context_evidence
    assert (again.model_.context_evidence is None) == (context == "bag")
    assert again.n_features_in_ == 3 and again.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(again.predict_proba(bags), model.predict_proba(bags))
    again.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == path.read_bytes()


def test_files_from_before_there_was_context_have_none(tmp_path):
    path = tmp_path / "model.safetensors"
    model, bags = saved(path)
    tensors, text = take_apart(path.read_bytes())
    for name in ("context", "context_evidence"):
        del text["model"][name]
    path.write_bytes(put_together(tensors, text))
    with pytest.raises(ModelFileError, match="facts are incomplete"):
        load_model(path)
    path.write_bytes(put_together(tensors, text | {"format": 3}))
    again = PsiVGPMIL.load(path)
    assert not again.model_.context and again.model_.context_evidence is None
    np.testing.assert_array_equal(again.predict_proba(bags), model.predict_proba(bags))


def test_names_are_as_many_as_the_features_of_the_caller(tmp_path):
    path = tmp_path / "model.safetensors"
    saved(path, context="bag")
    tensors, text = take_apart(path.read_bytes())
    path.write_bytes(put_together(tensors, text | {"feature_names": [f"f{n}" for n in range(12)]}))
    with pytest.raises(ModelFileError, match="3 features need as many different names"):
        load_model(path)
