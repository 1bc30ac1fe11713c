"""The JSON that the viewer gives and takes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from psimil.report.calls import NOTE


def _number(value: Any) -> Any:
    if isinstance(value, (bool, str)):  # JSON's 3.0 is a whole number; true and "3" are not
        raise ValueError("not a number")
    return value


Verdict = Literal["agree", "disagree"]
Label = Literal[0, 1]
Share = Annotated[float, Field(ge=0, le=1)]
KEY = r"^[A-Za-z0-9_-]{12}$"
Key = Annotated[str, Field(pattern=KEY)]

Place = Annotated[int, Field(ge=0, le=1_000_000), BeforeValidator(_number)]


class Schema(BaseModel):
    """A JSON object with these fields and no others."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Problem(Schema):
    """Why there is no answer."""

    error: str


class Token(Schema):
    """What opens a session."""

    token: Annotated[str, Field(max_length=200)]


class Reliability(Schema):
    """Share of positives beside the mean probability, per bin that holds bags; ``edges`` has both ends of each."""

    edges: list[tuple[Share, Share]]
    mean: list[Share]
    share: list[Share]
    count: list[int]


Scores = dict[str, float | None]


class Inside(Schema):
    """What the model finds inside bags, and what their middle finds, see :mod:`psimil.results.localisation`."""

    model: Scores
    middle: Scores
    unit: str | None
    n_both_kinds: int
    n_positive: int


class Summary(Schema):
    """The whole result set in numbers."""

    kind: Literal["ct", "images", "features"]
    bags: int
    instances: int
    positives_called: int
    to_refer: int
    novel: int
    threshold: Share
    instance_threshold: Share
    level: Share
    has_truth: bool
    has_novelty: bool
    has_images: bool
    has_volumes: bool
    model: dict[str, str]
    note: str = NOTE
    origin: str
    thresholds: str
    reliability: Reliability | None
    scores: Scores | None
    inside: Inside | None


class Estimate(Schema):
    """A probability with its uncertainty, what follows at the threshold, and how unlike the training data it is."""

    probability: Share
    std: Annotated[float, Field(ge=0)]
    lower: Share
    upper: Share
    log_odds: float
    called: Label
    novelty: Share | None
    novel: bool
    truth: Label | None
    verdict: Verdict | None


class BagRow(Estimate):
    """One line of the worklist."""

    key: Key
    id: str
    refer: bool
    reason: str
    size: int
    notes: str
    n_notes: int


class BagList(Schema):
    """Some lines of the worklist, and how many there are."""

    total: int
    bags: list[BagRow]


class FeatureEffect(Schema):
    """A feature that moves the probability of an instance."""

    name: str
    value: float
    effect: float


class Owed(Schema):
    """What the log-odds of an instance owe to its own features, and what to those of its bag."""

    own: float
    bag: float


class InstanceRow(Estimate):
    """One instance of a bag."""

    index: int
    position: float | None
    telling: list[FeatureEffect]
    owed: Owed | None
    note: str


class Sides(Schema):
    """Letters of the sides of the patient at the edges of a picture, see :class:`psimil.results.edges.Edges`."""

    left: str
    right: str
    top: str
    bottom: str


class Picture(Schema):
    """What pictures a bag has: slices in Hounsfield units, or thumbnails in a sprite.

    ``spacing`` has the millimetres between rows and between columns of slices, ``edges`` the sides of the patient, and
    ``ends`` names where the slices begin and end; the first two are None where they are unknown.
    ``heat`` says what the heat map over the pictures shows, None where there is none.
    """

    kind: Literal["hu", "thumbnail", "none"]
    rows: int
    columns: int
    sprite_columns: int
    thumb_rows: int
    thumb_columns: int
    spacing: tuple[float, float] | None
    edges: Sides | None
    ends: tuple[str, str]
    heat: str | None


class BagDetails(BagRow):
    """One bag with all its instances."""

    note: str
    previous: Key | None
    next: Key | None
    instances: list[InstanceRow]
    image: Picture
    threshold: Share
    instance_threshold: Share
    difference: str
    why: str


class GivenFeedback(Schema):
    """What a reader says about a bag, or about one instance of it."""

    bag: Key
    instance: Place | None = None
    verdict: Verdict | None = None
    note: Annotated[str, Field(max_length=2000)] = ""


class StoredFeedback(GivenFeedback):
    """What was stored, with the label that follows."""

    called: Label
    known: Label | None
    when: str
