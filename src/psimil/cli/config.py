"""Settings of a fit: the command line over the config file over the preset over the defaults."""

from __future__ import annotations

import difflib
import re
import tomllib
from inspect import signature
from pathlib import Path
from typing import Any

from psimil.cli.exits import UsageProblem, printable
from psimil.cli.settings import spelt
from psimil.estimators.parameters import options_of, resolved
from psimil.estimators.psi_vgpmil import GVGPMIL, VGPMIL, PsiVGPMIL
from psimil.files.model_file import parameters_json
from psimil.files.schema import DENSITIES, kernel_from
from psimil.foundations.errors import InputError, MissingFile
from psimil.model.densities import GammaMixture

CHOSEN_BY_NAME = ("model", "alpha", "beta", "preset")
LISTS = ("features", "drop")
COLUMNS = ("bag", *LISTS)  # of the table, which are no parameters of the estimator
NOT_IN_FILES = ("self", "inducing_points", "warm_start", "verbose")
NONE = "none"  # TOML has no null
MODELS: dict[str, type[PsiVGPMIL]] = {"vgpmil": VGPMIL, "gvgpmil": GVGPMIL}


def read_config(path: Path) -> dict[str, Any]:
    """The settings in a TOML file: parameters of the constructor, model, alpha, beta, preset; the columns."""
    if not path.is_file():
        raise MissingFile(f"config file {path.name} was not found. Check the path.")
    try:
        text = path.read_text(encoding="utf-8")
        values = tomllib.loads(text)
    except UnicodeDecodeError:
        raise InputError(f"config file {path.name} is not text in UTF-8.") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageProblem(f"config file {path.name} is not valid TOML: {error}.") from None
    allowed = [n for n in signature(PsiVGPMIL.__init__).parameters if n not in NOT_IN_FILES] + [
        *CHOSEN_BY_NAME,
        *COLUMNS,
    ]
    found: dict[str, Any] = {}
    for written, value in values.items():
        key = written.replace("-", "_")
        if key not in allowed:
            raise UsageProblem(_unknown(written, text, allowed))
        if key in found:
            raise UsageProblem(f'config file {path.name} gives "{key}" twice, with - and with _. Keep one.')
        found[key] = spelt(key, value) if isinstance(value, str) and key != "bag" else value
        if key == "bag" and not isinstance(value, str):
            raise UsageProblem(f"bag must be the name of a column in the config file, got {value!r}.")
        if key in LISTS and not (isinstance(value, list) and all(isinstance(name, str) for name in value)):
            raise UsageProblem(f"{key} must be a list of names of columns in the config file, got {value!r}.")
    return found


def build(given: dict[str, Any], file: dict[str, Any]) -> PsiVGPMIL:
    """The estimator that the command line ``given`` and the config ``file`` describe, checked.

    Parameters
    ----------
    given : constructor parameters, model, alpha, beta and preset; only those that were asked for.
    file : the same from a file, with tables for kernel and density.
    """
    values = {**file, **given}
    if "density" in file and any(name in given for name in ("model", "alpha", "beta")):
        del values["density"]
    name, preset = values.pop("model", None), values.pop("preset", None)
    gamma: dict[str, Any] = {k: values.pop(k) for k in ("alpha", "beta") if k in values}
    try:
        values |= _objects(values)
        if "density" in values:
            if name or gamma:
                raise InputError("the config file gives density and also model, alpha or beta. Keep one.")
            cls = PsiVGPMIL
        else:
            cls, values["density"] = _model(name, gamma)
        values.setdefault("random_state", 0)
        estimator = cls(**values) if preset is None else cls.preset(preset, **values)
        _check(estimator)
    except InputError as error:
        raise UsageProblem(str(error)) from None
    return estimator


def config_text(estimator: PsiVGPMIL, columns: dict[str, Any] | None = None) -> str:
    """The estimator's parameters, and which columns were asked for, as TOML that :func:`read_config` reads back.

    Examples
    --------
    >>> print(config_text(VGPMIL(n_inducing=5, H=100.0)).splitlines()[1])
    H = 100.0
    """
    values = parameters_json({k: v for k, v in estimator.get_params(deep=False).items() if k not in NOT_IN_FILES})
    usual = type(estimator)().get_params(deep=False)
    values = {key: NONE if value is None and usual[key] is not None else value for key, value in values.items()}
    values |= {"H": estimator.H, **(columns or {})}
    scalars = {k: v for k, v in values.items() if v is not None and not isinstance(v, dict)}
    tables = {k: v for k, v in values.items() if isinstance(v, dict)}
    lines = ["# Resolved settings; use again with: psimil fit BAGS --out RUN --config config.toml"]
    lines += [f"{key} = {_toml(scalars[key])}" for key in sorted(scalars)]
    for key, table in tables.items():
        lines += ["", f"[{key}]", *(f"{k} = {_toml(v)}" for k, v in table.items() if v is not None)]
    return "\n".join(lines) + "\n"


def _model(name: str | None, gamma: dict[str, Any]) -> tuple[type[PsiVGPMIL], Any]:
    if name is not None and name not in MODELS:
        raise InputError(f"model must be one of {', '.join(MODELS)}, got {name!r}.")
    cls = MODELS[name or ("gvgpmil" if gamma else "vgpmil")]
    if not gamma:
        return cls, cls._default_density
    if name == "vgpmil":
        raise InputError("alpha and beta belong to the model gvgpmil; vgpmil has neither.")
    if not all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in gamma.values()):
        raise InputError(f"alpha and beta must be numbers, got {', '.join(map(str, gamma.values()))}.")
    return cls, GammaMixture(**{"alpha": 1.0, "beta": 1.0} | {k: float(v) for k, v in gamma.items()})


def _objects(values: dict[str, Any]) -> dict[str, Any]:
    """Kernel and density from their tables."""
    objects: dict[str, Any] = {}
    for key in ("kernel", "density"):
        if key not in values:
            continue
        try:
            table = dict(values[key])
            kind = table["kind"]
            if key == "kernel":
                objects[key] = kernel_from(table)
            elif kind in DENSITIES:
                objects[key] = DENSITIES[kind](**{k: v for k, v in table.items() if k != "kind"})
            else:
                raise InputError(f"unknown density {kind!r}; known: {', '.join(DENSITIES)}.")
        except InputError:
            raise
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise InputError(f"[{key}] in the config file is not a table with a kind and numbers: {error}.") from None
    return objects


def _check(estimator: PsiVGPMIL) -> None:
    """Refuse bad values before any data is read."""
    options_of(resolved(estimator), n_features=0)
    if type(estimator.random_state) is not int or estimator.random_state < 0:
        raise InputError(f"random_state must be a whole number >= 0, got {estimator.random_state!r}.")


def _unknown(key: str, text: str, allowed: list[str]) -> str:
    pattern = re.compile(rf"""\s*\[*\s*["']?{re.escape(key)}["']?\s*[=.\]]""")
    line = next((n for n, row in enumerate(text.splitlines(), 1) if pattern.match(row)), None)
    where = "config" if line is None else f"config line {line}"
    near = difflib.get_close_matches(key, allowed, n=1)
    hint = f'; did you mean "{near[0]}"?' if near else "."
    return f'unknown key "{printable(key)}" in {where}{hint}'


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return repr(value)
