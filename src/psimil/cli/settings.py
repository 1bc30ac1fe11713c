"""Settings: every parameter of the estimator is an option of ``psimil fit``, described by the estimator alone."""

from __future__ import annotations

import ast
import re
from contextlib import suppress
from functools import cache
from importlib.resources import files
from typing import Any

from typer.core import TyperCommand

from psimil.cli.exits import UsageProblem

OBJECTS = ("density", "kernel", "inducing_points")  # tables of a config file, or Python's alone
NOT_OURS = ("warm_start", "verbose", "random_state")  # of a second fit, of Python, and --seed
NUMBERS = ("alpha", "beta")
OURS = {  # that choose among estimators, or mean something else on the command line
    "positive": "label. That of positive bags; needed unless it is 1 or True.",
    "preset": '"paper" or "published". Settings of the paper, or of its code.',
    **dict.fromkeys(NUMBERS, "float. Of the density of the model gvgpmil, which it asks for."),
}
KEY = "psimil.settings"
WORDS = {  # that stand for a value
    **dict.fromkeys(("true", "yes", "on"), True),
    **dict.fromkeys(("false", "no", "off"), False),
    **dict.fromkeys(("none", "null"), None),
}


class CommandWithSettings(TyperCommand):
    """A command that takes ``--n-inducing 50`` for the parameter ``n_inducing``, and so on for all of them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the settings out before the options of the command are read."""
        declared = {name for param in self.params for name in param.opts}
        left: list[str] = []
        settings: dict[str, str] = {}
        rest = iter(args)
        for arg in rest:
            option, equals, value = arg.partition("=")
            name = option.removeprefix("--").replace("-", "_")
            if arg == "--":
                left += [arg, *rest]
            elif not option.startswith("--") or option in declared or name not in described():
                left.append(arg)
            else:
                text = value if equals else next(rest, None)
                if text is None:
                    raise UsageProblem(f"Option '{option}' requires an argument.")
                settings[name] = text
        ctx.meta[KEY] = settings
        return super().parse_args(ctx, left)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The options of the command, then its settings."""
        super().format_options(ctx, formatter)
        with formatter.section("Settings, also keys of a config file (none stands for None)"):
            formatter.write_dl([(f"--{name.replace('_', '-')}", text) for name, text in described().items()])


@cache
def described() -> dict[str, str]:
    """By the name of a setting, what it may be and means, from the docstring of the estimator, which is not imported.

    Examples
    --------
    >>> described()["max_iter"]
    'int, default 100. Passes at most per stage.'
    """
    source = (files("psimil.estimators") / "psi_vgpmil.py").read_text(encoding="utf-8")
    classes = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
    text = next(ast.get_docstring(node) or "" for node in classes if node.name == "PsiVGPMIL")
    section = text.split("Parameters\n----------\n")[1].split("\n\n")[0]
    entries = re.findall(r"^(\w+) : (.+)\n((?:    .+(?:\n|$))*)", section, re.MULTILINE)
    texts = {name: f"{kind}. {' '.join(meaning.split())}" for name, kind, meaning in entries} | OURS
    plain = {name: re.sub(r":\w+:`(.+?)`|``(.+?)``", r"\1\2", text) for name, text in texts.items()}
    return {name: text for name, text in plain.items() if name not in (*OBJECTS, *NOT_OURS)}


def read_settings(texts: dict[str, str]) -> dict[str, Any]:
    """The values that texts stand for: the first reading that the rule of the parameter allows, else the text itself.

    Examples
    --------
    >>> read_settings({"n_inducing": "50", "label_posterior": "mean-field", "H": "inf", "positive": "1"})
    {'n_inducing': 50, 'label_posterior': 'mean_field', 'H': inf, 'positive': '1'}
    """
    from psimil.estimators.parameters import CONSTRAINTS, FREE

    settings: dict[str, Any] = {}
    for name, text in texts.items():
        rule, holds = CONSTRAINTS.get(name, FREE)
        numbers = [value for value in _number(text) if (name in NUMBERS if not rule else holds(value))]
        settings[name] = numbers[0] if numbers else spelt(name, text)
    return settings


def spelt(name: str, text: str) -> Any:
    """What a word stands for where the rule of the parameter does not know it as it is written, else the word itself.

    Examples
    --------
    >>> [spelt("label_posterior", "mean-field"), spelt("standardize", "no"), spelt("calibrate", "None")]
    ['mean_field', False, None]
    >>> spelt("device", "none"), spelt("device", "cpu")
    (None, 'cpu')
    >>> spelt("positive", "None")  # may be what a class is called
    'None'
    """
    from psimil.estimators.parameters import CONSTRAINTS, FREE

    rule, holds = CONSTRAINTS.get(name, FREE)
    lower = text.replace("-", "_").lower()
    readings = [lower, *([WORDS[lower]] if lower in WORDS else [])]
    if (rule and holds(text)) or name == "positive":
        return text
    return next((value for value in readings if holds(value)), text)


def _number(text: str) -> list[int | float]:
    for kind in (int, float):
        with suppress(ValueError):
            return [kind(text)]
    return []
