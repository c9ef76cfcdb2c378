"""Draw the share of exact predictions by the size of the truth, one line for each recorded decoder.

    ele evaluate runs/moses --decoder search --record docs/results/moses/search.json
    python benchmarks/sizes.py docs/results/moses --by atoms --output docs/results/moses/sizes.svg

Works for the records of any task: --by names a property of its outputs, --metric one of its metrics.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ele_core.experiments.sweep import STYLE, look


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="records of `ele evaluate --record`, as JSON files")
    parser.add_argument("--by", default="atoms", help="the property of the truths on the horizontal axis")
    parser.add_argument("--metric", default="exact", help="the metric on the vertical axis")
    parser.add_argument("--output", type=Path, required=True, help="the SVG file to write")
    options = parser.parse_args()
    found = [json.loads(file.read_text("utf-8")) for file in sorted(options.folder.glob("*.json"))]
    records = [each for each in found if options.by in each.get("by_property", {})]
    if not records:
        sys.exit(
            f"{options.folder}: no record has metrics by {options.by!r}. Write one: ele evaluate RUN --record FILE"
        )
    draw(records, options.by, options.metric, options.output)


def draw(records: Sequence[dict[str, Any]], by: str, metric: str, file: Path) -> None:
    """Draw one line for each record; dashed lines were decoded from the true embedding."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(6.4, 3.4), layout="constrained")
        axes = figure.subplots()
        for place, record in enumerate(sorted(records, key=lambda each: (each["oracle"], each["decoder"]["name"]))):
            groups, (colour, marker, _) = record["by_property"][by], look(place)
            values = [group["metrics"][metric] for group in groups]
            label = record["decoder"]["name"] + (" (oracle)" if record["oracle"] else "")
            style = {"color": colour, "marker": marker, "linestyle": "--" if record["oracle"] else "-"}
            axes.plot([group["value"] for group in groups], values, label=label, **style)
        axes.set(xlabel=by.replace("_", " "), ylabel=metric.replace("_", " "))
        if metric == "exact":
            axes.set_ylim(-0.02, 1.02)
            axes.yaxis.set_major_formatter("{x:.0%}")
        axes.xaxis.get_major_locator().set_params(integer=True)
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3)
        figure.savefig(file, format="svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
