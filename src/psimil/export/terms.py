"""Terms of an ONNX graph, written as arithmetic: each operation adds a node, each number or array a constant.

Functions that ONNX has not are made of them: those of :mod:`psimil.foundations.logistic`, and the tail of a Gaussian.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from psimil.foundations.arrays import Array
from psimil.foundations.extras import needed

OPSET, IR_VERSION = 18, 8  # those of 2022: runtimes of the years since know them
LARGEST = float(np.finfo(np.float64).max)


class Graph:
    """The nodes and constants that terms have left behind.

    Examples
    --------
    >>> graph = Graph()
    >>> x = graph.input("x", np.float64, ["n"])
    >>> _ = x * 2.0 + 1.0
    >>> [node.op_type for node in graph.nodes]
    ['Mul', 'Add']
    """

    def __init__(self) -> None:
        self.onnx = _onnx_package()
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def input(self, name: str, dtype: Any, shape: list[Any]) -> Term:
        """An input of the graph; a size in words may vary."""
        self.inputs.append(self._value(name, dtype, shape))
        return Term(self, name)

    def output(self, name: str, term: Term, dtype: Any, shape: list[Any], words: str) -> None:
        """Make a term an output of the graph, said in words."""
        self.nodes.append(self.onnx.helper.make_node("Identity", [term.name], [name]))
        self.outputs.append(self._value(name, dtype, shape, words))

    def term(self, value: Any) -> Term:
        """A term as it is; numbers and arrays as constants."""
        if isinstance(value, Term):
            return value
        array = np.asarray(value)
        name = f"c{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(np.ascontiguousarray(array), name))
        if array.ndim == 0:  # ascontiguousarray makes one number of it
            del self.constants[-1].dims[:]
        return Term(self, name)

    def node(self, kind: str, *inputs: Any, **attributes: Any) -> Term:
        """What an operator makes of terms and constants."""
        name = f"t{len(self.nodes)}"
        names = [self.term(value).name for value in inputs]
        self.nodes.append(self.onnx.helper.make_node(kind, names, [name], **attributes))
        return Term(self, name)

    def model(self, name: str, words: str, version: str, metadata: dict[str, str]) -> Any:
        """The graph as an ``onnx.ModelProto``, checked."""
        helper = self.onnx.helper
        graph = helper.make_graph(self.nodes, name, self.inputs, self.outputs, self.constants, doc_string=words)
        opset = [helper.make_opsetid("", OPSET)]
        about = {"producer_name": "psimil", "producer_version": version, "doc_string": words}
        model = helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION, **about)
        helper.set_model_props(model, metadata)
        self.onnx.checker.check_model(model, full_check=True)
        return model

    def _value(self, name: str, dtype: Any, shape: list[Any], words: str = "") -> Any:
        kind = self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self.onnx.helper.make_tensor_value_info(name, kind, shape, doc_string=words)


def _binary(kind: str) -> Callable[[Term, Any], Term]:
    return lambda left, right: left.graph.node(kind, left, right)


class Term:
    """One tensor of a graph; comparisons are never true of what is no number."""

    __array_ufunc__ = None  # arrays leave the arithmetic to terms

    def __init__(self, graph: Graph, name: str) -> None:
        self.graph, self.name = graph, name

    __add__, __sub__, __mul__, __truediv__ = map(_binary, ("Add", "Sub", "Mul", "Div"))
    __matmul__, __and__, __or__ = map(_binary, ("MatMul", "And", "Or"))
    __lt__, __gt__, __le__, __ge__ = map(_binary, ("Less", "Greater", "LessOrEqual", "GreaterOrEqual"))
    at_least, at_most = map(_binary, ("Max", "Min"))  # the larger, the smaller of it and a number or term

    def __rsub__(self, other: Any) -> Term:
        """A number or array less the term."""
        return self.graph.node("Sub", other, self)

    def __neg__(self) -> Term:
        """The term with its sign changed."""
        return self.apply("Neg")

    def apply(self, kind: str) -> Term:
        """What an operator of one input makes of it: "Exp", "Log", "Abs", ..."""
        return self.graph.node(kind, self)

    def cast(self, dtype: Any) -> Term:
        """The same numbers in another type."""
        return self.graph.node("Cast", self, to=self.graph.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def power(self, exponent: float) -> Term:
        """Its power, of numbers that are not negative."""
        return self.graph.node("Pow", self, exponent)

    def over(self, kind: str, axis: int, keep: bool = False) -> Term:
        """The "Sum", "Mean", "Max" or "Min" over an axis."""
        return self.graph.node(f"Reduce{kind}", self, np.array([axis]), keepdims=int(keep))

    def column(self) -> Term:
        """(N,) as (N, 1)."""
        return self.graph.node("Unsqueeze", self, np.array([1]))

    def rows(self, index: Any) -> Term:
        """Some of its rows."""
        return self.graph.node("Gather", self, index, axis=0)

    def columns(self, start: int, stop: int) -> Term:
        """Its columns start to stop - 1."""
        return self.graph.node("Gather", self, np.arange(start, stop), axis=1)

    def where(self, yes: Any, no: Any) -> Term:
        """Elementwise one or the other, as it is true or not."""
        return self.graph.node("Where", self, yes, no)

    def is_finite(self) -> Term:
        """Whether it is a number and not infinite."""
        return self.apply("Abs") <= LARGEST


def _onnx_package() -> Any:
    """The package onnx; refused where it is not installed."""
    with needed("ONNX files need onnx", "onnx"):
        import onnx
        import onnx.checker
        import onnx.helper
        import onnx.numpy_helper
    return onnx


def log1p(x: Term) -> Term:
    """log(1 + x), to the last digits where x is small (Kahan)."""
    u = x + 1.0
    more = u - 1.0
    changed = more.apply("Abs") > 0.0
    return changed.where(u.apply("Log") * (x / changed.where(more, 1.0)), x)


def expm1(x: Term) -> Term:
    """e^x - 1, to the last digits where x is small (Kahan)."""
    u = x.apply("Exp")
    more = u - 1.0
    near = (x.apply("Abs") < 0.5) & (more.apply("Abs") > 0.0)
    small = near.where(more * x / near.where(u, 2.0).apply("Log"), x)
    return (x.apply("Abs") < 0.5).where(small, more)


def softplus(x: Term) -> Term:
    """log(1 + e^x)."""
    return x.at_least(0.0) + log1p((-x.apply("Abs")).apply("Exp"))


def sigmoid(x: Term) -> Term:
    """1 / (1 + e^-x)."""
    e = (-x.apply("Abs")).apply("Exp")
    return (x >= 0.0).where(1.0, e) / (e + 1.0)


def log1mexp(x: Term) -> Term:
    """log(1 - e^x) for x <= 0."""
    return (x > -0.693).where((-expm1(x.at_most(0.0))).apply("Log"), log1p(-x.apply("Exp")))


def square(x: Term) -> Term:
    """x^2."""
    return x * x


def log_mean(values: Term, axis: int, count: int) -> Term:
    """Log of the mean of e^values over an axis of that many."""
    top = values.over("Max", axis, keep=True).at_least(-LARGEST)  # a number where all are minus infinity
    mean = (values - top).apply("Exp").over("Sum", axis, keep=True).apply("Log") + (top - float(np.log(count)))
    return mean.over("Sum", axis).at_most(0.0)


def variance_over(values: Term, axis: int) -> Term:
    """The variance over an axis, as of a population."""
    return square(values - values.over("Mean", axis, keep=True)).over("Mean", axis)


def log_half_erfcx(z: Term) -> Term:
    """(N,) log(erfcx(z / sqrt 2) / 2) for z >= 0, which is log Phi(-z) + z^2 / 2.

    erfcx(x) = 2 / sqrt(pi) int_0^inf exp(-t^2 - 2 x t) dt, by the trapezoid rule in y after t = exp(y - e^-y) / (1 + x)
    (Takahasi and Mori), which leaves no more than rounding.
    """
    nodes, weights = _tail_rule()
    x = z.column() * float(np.sqrt(0.5))
    t = x.graph.term(nodes) / (x + 1.0)
    integral = (-(square(t) + t * x * 2.0)).apply("Exp") @ weights
    return (integral / (x.over("Sum", 1) + 1.0) * float(1.0 / np.sqrt(np.pi))).apply("Log")


def _tail_rule() -> tuple[Array, Array]:
    """(K,) nodes and weights of that integral."""
    h = 1.0 / 32
    y = np.arange(-3.75, 4.0 + h, h)
    nodes = np.exp(y - np.exp(-y))
    return nodes, h * nodes * (1.0 + np.exp(-y))


def log_tail(mu: Term, s2: Term) -> Term:
    """(N,) log E min(e^f, 1) for mu < 0: as :mod:`psimil.predictive.moments` has it for means far from all nodes."""
    s = s2.at_least(1e-100).apply("Sqrt")
    ratio = mu / s
    z = ratio + s
    half_square = square(ratio) * 0.5
    right = z.at_least(0.0)
    left = (-z).at_least(0.0)
    scaled = log_half_erfcx(right) - half_square
    beyond = (log_half_erfcx(left) - square(left) * 0.5).apply("Exp")
    below = (z > 0.0).where(scaled, mu + s2 * 0.5 + log1p(-beyond))
    above = log_half_erfcx((-ratio).at_least(0.0)) - half_square
    top = below.at_least(above)
    return top + log1p((-(below - above).apply("Abs")).apply("Exp"))
