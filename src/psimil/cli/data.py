"""``psimil data``: bags on disk, imported, checked and described."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from psimil.cli.arguments import STORE, TABLE, check_arguments
from psimil.cli.exits import NOTE
from psimil.cli.groups import EVERYWHERE, asked, epilog, group
from psimil.cli.options import (
    BagColumn,
    DropNames,
    FeatureNames,
    InstanceColumn,
    LabelColumn,
    Positive,
    choice,
    names,
)
from psimil.cli.shell import Shell

if TYPE_CHECKING:
    from psimil.store.manifest import Manifest

SOURCE_HELP = "CSV, TSV, parquet or npz file with one row per instance, torchmil folder, or folder of h5 or pt files."

StoreFolder = Annotated[Path, typer.Argument(metavar="STORE", help="Folder of the store.", show_default=False)]

data = group("data", help="Stores: bags on disk for data that is larger than the memory.", no_args_is_help=True)


@data.command("import", epilog=epilog("data import"))
def import_(
    context: typer.Context,
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help=SOURCE_HELP, show_default=False)],
    store: StoreFolder,
    bag: BagColumn = None,
    label: LabelColumn = None,
    positive: Positive = None,
    instance_label: InstanceColumn = None,
    features: FeatureNames = None,
    drop: DropNames = None,
    labels: Annotated[
        Path | None, typer.Option("--labels", metavar="FILE", help="CSV with slide_id and label, for h5 or pt files.")
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            parser=choice("float32", "float64"),
            metavar="float32|float64",
            help="On disk; float32, or what the store has, when left out.",
        ),
    ] = None,
    append: Annotated[bool, typer.Option("--append", help="Add to the store that is there.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the store that is there.")] = False,
) -> None:
    """Write a store from files of any size, a few megabytes at a time."""
    with Shell.of(context) as shell:
        from psimil.cli.score_tables import feature_lines
        from psimil.data.bagtable import BAG
        from psimil.store import import_bags

        check_arguments("data import", (source, TABLE), (store, STORE))
        manifest = import_bags(
            source,
            store,
            bag=bag or BAG,
            label=label,
            positive=positive,
            instance_label=instance_label,
            features=names(features),
            drop=names(drop),
            labels=labels,
            split=asked(context)["split"],
            dtype=dtype,
            append=append,
            overwrite=overwrite,
            progress=lambda total: shell.progress(total, "import"),
        )
        chosen = list(manifest.feature_names or ())
        shell.say(
            f"{store} holds {manifest.bags} bags, {manifest.instances} instances, {manifest.features} features.",
            *feature_lines(chosen),
            NOTE,
        )
        shell.result(store=str(store), feature_names=chosen, **_counts(manifest))


@data.command(epilog=EVERYWHERE)
def verify(context: typer.Context, store: StoreFolder) -> None:
    """Read every file of a store and compare its checksum."""
    with Shell.of(context) as shell:
        from psimil.store import open_store, read_manifest, verify_store
        from psimil.store.reader import verify_steps

        with shell.progress(verify_steps(read_manifest(store)), "verify") as step:
            manifest = verify_store(store, lambda: step(store.name))
        open_store(store)
        shell.say(f"{store} is whole: {manifest.bags} bags, {manifest.instances} instances.", NOTE)
        shell.result(store=str(store), whole=True, **_counts(manifest))


@data.command(epilog=EVERYWHERE)
def info(context: typer.Context, store: StoreFolder) -> None:
    """Show what a store holds: counts, labels, features, parts."""
    with Shell.of(context) as shell:
        from psimil.store import open_store, read_manifest

        manifest, bags = read_manifest(store), open_store(store)
        facts: dict[str, Any] = {
            "store": str(store),
            **_counts(manifest),
            "instances_per_bag": [int(bags.sizes.min()), int(bags.sizes.max())],
            "feature_names": list(bags.table().feature_names),
            "positive": 0 if bags.y is None else int((bags.y == 1).sum()),
            "negative": 0 if bags.y is None else int((bags.y == 0).sum()),
            "instances_labelled": 0 if bags.y_instances is None else int((bags.y_instances >= 0).sum()),
        }
        shell.facts(str(store), facts)
        shell.say(NOTE)
        shell.result(**facts)


def _counts(manifest: Manifest) -> dict[str, Any]:
    return {
        "bags": manifest.bags,
        "instances": manifest.instances,
        "features": manifest.features,
        "dtype": manifest.dtype,
        "ids": manifest.ids,
        "parts": len(manifest.parts),
        "generation": manifest.generation,
        "bytes": manifest.size,
    }
