"""A model file of 1.0.0: what it predicted then it predicts now, and a fit of it is one of its kind."""

import json
from base64 import b85decode
from zlib import decompress

import numpy as np
import pytest
from safetensors.numpy import save

from model_files import put_together, take_apart
from psimil import Bags, PsiVGPMIL
from psimil.estimators.parameters import OF_1_0_0
from psimil.files.sealed import checksum, read_tensors
from psimil.foundations.errors import ModelFileError
from psimil.inference.options import Parameters

# Written by 1.0.0: VGPMIL(n_inducing=2, calibrate=False, max_iter=8, tol=0.0, random_state=0) fitted to these bags
BAGS = Bags((np.arange(24) * 0.37 % 2.0 - 1.0)[:, None], np.arange(0, 25, 2))
Y = np.array([int(bag.max() > 0.45) for bag in BAGS])
FILE = (
    'c-n=PUuYaf9LGyh5~acVQvVft?vuh2_TTO8CB+LZEfIW(_C@K1b#`a=ZkoN_b!IN)5)OPZ4~mLt>w_SIpgxG8v{FI1C=p5(Dk>-z'
    'r9}JSi$)@~6ba6s-Sd)M;=b(7Z+`Rn{h9Cn?&8Qk`7CL^-$D#Pz<}>-6H8h~aSO-Vgtk=I!WdABXkD8qoi_B6IjfiIT7&>=6XZuY'
    'X&{mjoG{^#wBvYiI{__qvcHj%7Lcx%SjIRYfON#Vu9@S;xKY=Hy_G@~3oDNg8V!OPfFb3Tq?mU6lqkml1If3?4Y3S?Br=>P`Dw~c'
    '@}#LeXcI>=zLBppf&k1Ny21ikC(C0+aSE90s8DDjLm}(4>)JDI0Ew(qIpBmckc7x*O@e4MjiHL;7*)$O>}sWKmMf;`3EwlAF+>LP'
    'm_sD#mpq3PsA8OIw-h`^D(x-1kKqJ?yc6?)U=e+=6oMPgou{5ScCuh54c6S=q3s|=LKMR`h!r6t=^5S&1QmxOq&jF+D{i@B+463;'
    'b)hUd86aE|ymXqUHLZv^i4+TjA&L>nubYuJlGd#n0Bx2k_u|6kMg(Fi-NR-(ne!=LM1$IcD502jcJyPK-!}=;7>B1&2!xRL)&U@K'
    '$EPgKGA{nX0RO8HnV_GgJPkaL{335I0ok#pNMvh=cr9rhgNzov=2^GHJT5Pyg+N06pyS6N5c1h7r6Mu8DdKW0PKi2;7C^{yA*2m|'
    'QCay<Oc@UI?+`5bI2Wqat%z6TCFPzI5`Qo;OI<a?sL+vAR#Et1YI_Td2Y`UU{2~iAa5G_fx}q|wytfFh;IlN&TP!b?5r7k(r5~p4'
    'gcTwTKtujCt-<eDnk;8~=H+fz)A<|$R@vnf(r^vK3rrZ6k>}YE+D_=$5L6)yfEz@}M10paY|E*HRs`L^G`zAERVt3{Rt?+bV(X8~'
    'I1QzG#0ZwdIE^BT7}X~D<n?BCrAZ$2r0b|0#Oky;JHU{i^ALcio9^C(;s&`;_&BFS7^bV+)~*msml!2KKjP|2$q)#i4z9BY#1fFc'
    'R(+wkAr#lqz1=%vO9nw9ro5fI=i-U37`tP13F4gp{#ShQv7`_V?~kEd*6zi5J84|;!4MLs=++(ua#FW+7yEJQ-Ldn%mtMSe<m&ob'
    '?eOF$Hy6JDxp(W>10Q^M?t1Oe=EEnx`uxw@zWfR9S-Z4)_KVtEKfJo~?BR`C>00&f)tMW;{pRxMf$n<k!uj&`<6}Sd7H6N@eEhe~'
    '{<-4mHD7u8*Q?ihkG}EG9pjhxPZf6h+S@lyyf89#e2qPC|9)_)_T_z_buW%hefZFY$<{k}uDto=>VqR6jjn8b^SXXyadhSDncL4E'
    '_;$S)K9|jGKJrKJ)0<CEADmq2U8>*qck9r{wQ1-5`{&QC?}%So2KO$5_iDxaucKEsj$Zkt|5je>{rA70@9SO'
)  # fmt: skip
THEN = {
    "prob": [0.060842174130782176, 0.31060696634339857, 0.8652898572484657, 0.0824086649862244],
    "std": [0.03756480066881932, 0.09350740632129342, 0.07996931366920765, 0.04166221134783433],
    "lower": [0.015548882273656441, 0.15079799242282999, 0.6467504071990942, 0.026902042481137006],
    "upper": [0.15861375281121592, 0.514486755772172, 0.9697233840448661, 0.1868931171958091],
    "log_odds": [-2.7367003417800286, -0.7972832099667277, 1.8599391664799232, -2.410061533686556],
}


@pytest.fixture
def old(write):
    return write(decompress(b85decode(FILE)), "model.safetensors")


def test_its_predictions_are_those_of_1_0_0(old):
    found = PsiVGPMIL.load(old).predict_dist(BAGS)
    for name, values in THEN.items():
        np.testing.assert_allclose(getattr(found, name)[:4], values, rtol=1e-12)
    np.testing.assert_array_equal(found.refer, (found.lower < found.threshold) & (found.upper > found.threshold))


def test_its_parameters_have_the_names_of_today(old):
    stored = take_apart(old.read_bytes())[1]["parameters"]
    assert stored["hyperparameters"] == "collapsed" and "posterior" not in stored
    model = PsiVGPMIL.load(old)
    assert (model.posterior, model.hyperparameters, model.referral) == ("augmented", "bound", "interval")
    assert (model.n_inducing, model.aggregate, model.calibrate, model.max_iter) == (2, "noisy_or", False, 8)


@pytest.mark.parametrize("hyperparameters", ["collapsed", "loo", None])
def test_it_can_be_fitted_again_and_saved(old, write, tmp_path, hyperparameters):
    tensors, text = take_apart(old.read_bytes())
    text["parameters"]["hyperparameters"] = hyperparameters
    model = PsiVGPMIL.load(write(put_together(tensors, text), "other.safetensors"))
    model.set_params(random_state=0).fit(BAGS, Y).save(tmp_path / "again.safetensors")
    again = PsiVGPMIL.load(tmp_path / "again.safetensors")
    assert (again.posterior, again.hyperparameters) == ("augmented", hyperparameters and "bound")
    np.testing.assert_array_equal(again.predict_proba(BAGS), model.predict_proba(BAGS))


def test_a_file_that_names_its_posterior_keeps_all_that_it_says(old, write):
    tensors, text = take_apart(old.read_bytes())
    text["parameters"] |= {"posterior": None, "hyperparameters": None}
    model = PsiVGPMIL.load(write(put_together(tensors, text), "other.safetensors"))
    assert (model.posterior, model.hyperparameters, model.referral) == (None, None, Parameters().referral)


def test_a_subclass_with_fewer_arguments_is_not_taken_for_1_0_0(tmp_path):
    class Small(PsiVGPMIL):
        def __init__(self, n_inducing=2):
            super().__init__(n_inducing=n_inducing, hyperparameters=None, max_iter=3, tol=0.0, random_state=0)

    model = Small().fit(BAGS, Y)
    model.save(tmp_path / "small.safetensors")
    loaded = PsiVGPMIL.load(tmp_path / "small.safetensors")
    assert (loaded.posterior, loaded.n_inducing, loaded.max_iter) == (None, 2, 3)
    np.testing.assert_array_equal(loaded.predict_proba(BAGS), model.predict_proba(BAGS))


def test_what_1_0_0_took_for_granted_are_parameters_of_today():
    assert set(OF_1_0_0) <= set(PsiVGPMIL().get_params())


def test_other_files_of_1_0_0_had_their_checksum_inside_the_header(tmp_path):
    """Weights of networks, whose header and checksum were one text."""
    tensors, path = {"a": np.arange(3.0)}, tmp_path / "weights"
    text = json.dumps({"format": 1, "kind": "weights", "size": 3})
    sealed = {"header": text, "sha256": checksum(tensors, f"{len(text)}:{text}")}
    path.write_bytes(save(tensors, metadata={"psimil": json.dumps(sealed)}))
    found, header = read_tensors(path, "weights")
    assert header == {"size": 3} and (found["a"] == tensors["a"]).all()
    path.write_bytes(save({"a": np.ones(3)}, metadata={"psimil": json.dumps(sealed)}))
    with pytest.raises(ModelFileError, match="checksum differs"):
        read_tensors(path, "weights")
