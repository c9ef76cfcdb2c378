"""Write the tables of README.md and of pages in docs from the recorded results: no number is typed by hand.

    python benchmarks/tables.py [--check]

A table is written between `<!-- table: NAME -->` and `<!-- end of table -->`. With --check nothing is written, and the
exit code is 1 if a table is out of date.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ele_core import Reference, Table
from ele_core.experiments.reproduce.tables import ComparisonTable, read_records, up_to_date
from ele_graphs.coloring.task import Coloring
from ele_graphs.fp2mol import QM9_TABLE, FingerprintToMolecule
from ele_graphs.smi2mol.studies import TABLE1
from ele_graphs.smi2mol.task import SmilesToMolecule
from ele_sequences.g2p.task import TABLE as G2P
from ele_sequences.g2p.task import GraphemesToPhonemes

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results"
TRUST = ROOT / "docs" / "how-to" / "trust.md"
LEARNED_LOSS = ROOT / "docs" / "how-to" / "learned-loss.md"
CHECKS = ROOT / "docs" / "how-to" / "check-a-plugin.md"
SECURITY = ROOT / "docs" / "explanation" / "security.md"
TASKS = sorted((ROOT / "docs" / "tasks").glob("*.md"))
PAGES = (ROOT / "README.md", RESULTS / "index.md", TRUST, LEARNED_LOSS, CHECKS, SECURITY, *TASKS)
MISSING = "No result is recorded yet."
BLOCK = re.compile(r"<!-- table: ([\w-]+) -->\n.*?<!-- end of table -->", re.DOTALL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a table is out of date")
    check = parser.parse_args().check
    stale = [page for page in PAGES if (text := page.read_text("utf-8")) != renewed(text)]
    for page in stale:
        print(f"{page.relative_to(ROOT)}: {'out of date, run python benchmarks/tables.py' if check else 'written'}")
        if not check:
            page.write_text(renewed(page.read_text("utf-8")), "utf-8")
    sys.exit(1 if check and stale else 0)


def renewed(text: str) -> str:
    """A page with all its tables generated again."""
    return BLOCK.sub(lambda found: f"<!-- table: {found[1]} -->\n{TABLES[found[1]]()}\n<!-- end of table -->", text)


def smi2mol() -> str:
    """The paper's rows on QM9, then ours."""
    runs = records("smi2mol")
    rows = [
        [
            f"paper: {row.name}",
            number(row.values.get("ged_with_edges")),
            number(row.values["ged_without_edges"]),
            "–",
            "–",
        ]
        for row in SmilesToMolecule.references
    ]
    rows += [
        [
            f"**ours: {name_of(run)}**",
            number(run["metrics"]["ged_with_edges"]),
            number(run["metrics"]["ged_without_edges"]),
            share(run["metrics"]["exact"]),
            share(run["metrics"]["exact_unseen"]),
        ]
        for run in runs
    ]
    header = ["decoder", "GED with edges", "GED without edges", "exact", "exact, not in training"]
    return table(header, rows)


def moses() -> str:
    """Our results on larger molecules; nobody else has published any."""
    rows = [
        [
            name_of(run),
            f"{run['metrics']['examples']:,.0f}",
            number(run["metrics"]["ged_with_edges"]),
            f"{run['metrics'].get('ged_with_edges_not_proven', 0):,.0f}",
            share(run["metrics"]["exact"]),
            share(run["metrics"]["valid"]),
        ]
        for run in records("moses")
    ]
    return (
        table(["decoder", "molecules", "GED with edges", "of them bounds", "exact", "valid"], rows) if rows else MISSING
    )


def ms2mol_records(kind: str) -> list[dict[str, Any]]:
    """The recorded measurements of ms2mol of one kind, oracles last, the weakest first."""
    found = [json.loads(file.read_text("utf-8")) for file in sorted((RESULTS / "ms2mol").glob("*.json"))]
    chosen = [run for run in found if run.get("kind") == kind]
    weight = {
        "retrieval": lambda run: run["metrics"]["all"]["top_1"],
        "de novo": lambda run: run["metrics"]["tanimoto"],
    }[kind]
    return sorted(chosen, key=lambda run: (run["oracle"], weight(run)))


def ms2mol() -> str:
    """Retrieval from mass spectra: the share of true molecules among the first candidates, for three sets of them."""
    runs = ms2mol_records("retrieval")
    if not runs:
        return MISSING
    tops = ("top_1", "top_5", "top_20")
    rows = []
    for run in runs:
        split = run["config"]["task"].get("split", "molecule")
        found = run["metrics"]
        rows.append(
            [
                f"**{run['name']}**" if run["name"].startswith("ELE") else run["name"],
                split,
                *(" / ".join(f"{100 * found['all'][top]:.1f}" for top in tops),),
                f"{100 * found['10 ppm']['top_1']:.1f}",
                f"{100 * found['10 ppm']['top_1_of_several']:.1f}",
                f"{100 * found['same formula']['top_1']:.1f}",
                f"{100 * found['same formula']['top_1_of_several']:.1f}",
            ]
        )
    header = [
        "method",
        "split",
        "all: top 1 / 5 / 20",
        "10 ppm: top 1",
        "of several",
        "same formula: top 1",
        "of several",
    ]
    return table(header, rows)


def ms2mol_de_novo() -> str:
    """Molecules from mass spectra by search among all molecules."""
    rows = [
        [
            f"**{run['name']}**",
            f"`{run['command'].split()[2]}`",
            f"{run['spectra']:,}",
            share(run["found"] / run["spectra"]),
            share(run["metrics"]["exact"]),
            f"{run['metrics']['tanimoto']:.3f}",
            number(run["metrics"]["ged_with_edges"]),
            share(run["metrics"]["valid"]),
            f"{run['seconds']:.0f} s",
        ]
        for run in ms2mol_records("de novo")
    ]
    header = ["method", "run", "spectra", "answered", "exact", "Tanimoto", "GED with edges", "valid", "time"]
    return table(header, rows) if rows else MISSING


def ms2mol_commands() -> str:
    """The command, date and time of each measurement of ms2mol."""
    runs = [*ms2mol_records("retrieval"), *ms2mol_records("de novo")]
    rows = [[f"`{run['command']}`", run["date"], str(run["seed"]), f"{run['seconds']:.0f} s"] for run in runs]
    return table(["command", "date", "seed", "time"], rows) if rows else MISSING


def coloring() -> str:
    """The published results, then ours, on up to 10 and on up to 20 cells."""
    header = ["cells", "method", "pictures", "exact", "exact, not in training", "GED", "of them bounds", "training"]
    rows = []
    for cells, reference in zip((10, 20), Coloring.references, strict=True):
        rows.append([f"up to {cells}", reference.name.split(",")[0], "–", share(reference.values["exact"]), *["–"] * 4])
        rows += [
            [
                f"up to {cells}",
                f"**ours: {name_of(run)}**",
                f"{run['metrics']['examples']:,.0f}",
                share(run["metrics"]["exact"]),
                share(run["metrics"]["exact_unseen"]),
                number(run["metrics"]["ged_with_edges"]),
                f"{run['metrics'].get('ged_with_edges_not_proven', 0):,.0f}",
                f"{run['training_seconds'] / 60:.0f} min",
            ]
            for run in of_cells(cells)
        ]
    return table(header, rows)


def of_cells(cells: int) -> list[dict[str, Any]]:
    """The evaluations of `coloring` on pictures of up to so many cells."""
    return [run for run in records("coloring") if run["config"]["output"]["max_nodes"] == cells]


def exact_by(task: str, name: str, runs: list[dict[str, Any]] | None = None) -> str:
    """The share of exact predictions for each value of a property of the truths, and its figure if it was drawn."""
    runs = records(task) if runs is None else runs
    if not runs:
        return MISSING
    groups = [{group["value"]: group for group in run["by_property"][name]} for run in runs]
    rows = []
    for value in sorted(set().union(*groups)):
        own = [each.get(value) for each in groups]
        counts = sorted({each["examples"] for each in own if each})
        shares = [share(each["metrics"]["exact"]) if each else "–" for each in own]
        rows.append(
            [f"{value:g}", " to ".join(f"{count:,}" for count in dict.fromkeys((counts[0], counts[-1]))), *shares]
        )
    made = table([name.replace("_", " "), "examples", *map(name_of, runs)], rows)
    picture = RESULTS / task / "sizes.svg"
    return f"{made}\n\n![Exact predictions by {name}]({task}/{picture.name})" if picture.exists() else made


def fp2mol(folder: str, references: Sequence[Reference] = ()) -> str:
    """Molecules from fingerprints: published results, then ours."""
    rows = [[f"published: {each.name}", "–", "–", share(each.values["exact"]), "–", "–"] for each in references]
    rows += [
        [
            name_of(run),
            f"{run['metrics']['examples']:,.0f}",
            number(run["metrics"]["ged_with_edges"]),
            share(run["metrics"]["exact"]),
            number(run["metrics"].get("regression_error")),
            run["date"],
        ]
        for run in records(folder)
    ]
    return table(["decoder", "molecules", "GED with edges", "exact", "regression error", "date"], rows)


def study_table(study: Table, scale: str) -> str:
    """The table of a study at one scale, from its records."""
    known = up_to_date(read_records(RESULTS / "reproduction" / f"{study.name}-{scale}"), {})
    if not known:
        return MISSING
    first, *others = (made := ComparisonTable(study, scale, known, {})).notes()
    return "\n\n".join([first, made.markdown_table(), *others])


def top_k(task: str) -> str:
    """The share of truths among the first answers."""
    if not (RESULTS / f"{task}-top-k.json").exists():
        return MISSING
    found = loaded(f"{task}-top-k.json")
    shares = [share(found["exact"][rank]) for rank in ("1", "2", "5", "10")]
    row = [f"{found['inputs']:,}", *shares, share(found["shared_inputs"]), found["date"]]
    return table(["molecules", "first", "first 2", "first 5", "first 10", "fingerprint is shared", "date"], [row])


def without_a_parser() -> str:
    """One line for each task whose inputs no program reads: the best result of ours, and what to compare it with."""
    rows = [
        [f"[{name}]({page})", what, found, beside]
        for name, page, what, found, beside in (
            (
                "fp2mol",
                "docs/tasks/fp2mol.md",
                "Morgan fingerprint → molecule, QM9",
                exact_of("fp2mol/search-fingerprint.json"),
                f"Any2Graph {100 * FingerprintToMolecule.references[0].values['exact']:g} %, by a looser measure",
            ),
            (
                "fp2mol",
                "docs/tasks/fp2mol.md",
                "the same on MOSES, new scaffolds",
                exact_of("fp2mol-moses/search-fingerprint.json"),
                "–",
            ),
            ("g2p", "docs/tasks/g2p.md", "spelling → phonemes, CMUdict", *g2p_and_rivals()),
            (
                "ms2mol",
                "docs/tasks/ms2mol.md",
                "mass spectrum → molecule, of all in the file",
                *ms2mol_and_rivals("all", "top_1"),
            ),
            (
                "ms2mol",
                "docs/tasks/ms2mol.md",
                "the same, of several within 10 ppm",
                *ms2mol_and_rivals("10 ppm", "top_1_of_several"),
            ),
            *(
                (
                    "coloring",
                    "docs/tasks/coloring.md",
                    f"picture → graph of up to {cells} cells",
                    *best_of_cells(cells),
                    f"{reference.name.split(',')[0]} {share(reference.values['exact'])}",
                )
                for cells, reference in zip((10, 20), Coloring.references, strict=True)
            ),
        )
    ]
    return table(["task", "from → to", "exact (test examples)", "beside it"], rows)


def exact_of(file: str) -> str:
    """The share of exact predictions of a record, with the number of test examples."""
    if not (RESULTS / file).exists():
        return "–"
    found = loaded(file)["metrics"]
    return f"**{share(found['exact'])}** ({found['examples']:,.0f})"


def best_of_cells(cells: int) -> list[str]:
    """The best share of exact graphs that was measured on pictures of up to so many cells."""
    runs = [run for run in of_cells(cells) if not run["oracle"]]
    if not runs:
        return ["–"]
    best = max(runs, key=lambda run: run["metrics"]["exact"])["metrics"]
    return [f"**{share(best['exact'])}** ({best['examples']:,.0f})"]


def g2p_and_rivals() -> list[str]:
    """The share of right words, and that of the rivals."""
    records = {record["row"]: record["metrics"] for record in read_records(RESULTS / "g2p-full")}
    ours = records.pop("ELE", None)
    rivals = ", ".join(
        f"{name} {share(found['exact'])}" for name, found in records.items() if not name.startswith("ELE")
    )
    published = ", ".join(
        f"{each.name} {share(1 - each.values['wer'])}"
        for each in GraphemesToPhonemes.references
        if "wer" in each.values
    )
    beside = f"{rivals or 'none measured'}; published: {published}"
    return ["–" if ours is None else f"**{share(ours['exact'])}** ({ours['examples']:,.0f})", beside]


def ms2mol_and_rivals(candidates: str, measure: str) -> list[str]:
    """The share of true molecules that are ranked first among some candidates, and that of the rivals."""
    runs = [run for run in ms2mol_records("retrieval") if not run["oracle"]]
    runs = [run for run in runs if run["config"]["task"]["split"] == "molecule"]
    first = {run["name"]: run["metrics"][candidates][measure] for run in runs}
    ours = {name: value for name, value in first.items() if name.startswith("ELE")}
    rivals = ", ".join(f"{name} {share(value)}" for name, value in first.items() if name not in ours)
    spectra = runs[0]["metrics"][candidates]["several"] if runs else 0
    return [f"**{share(max(ours.values()))}** ranked first ({spectra:,})" if ours else "–", rivals or "–"]


def number_words() -> str:
    """The results on the toy task, in which no test output occurs in training."""
    rows = [
        [name_of(run), share(run["metrics"]["exact"]), number(run["metrics"]["edit_distance"])]
        for run in records("number-words")
    ]
    return table(["decoder", "exact", "edit distance"], rows)


def g2p() -> str:
    """Spelling to phonemes, beside its rivals."""
    known = up_to_date(read_records(RESULTS / f"{G2P.name}-full"), {})
    references = {reference.name: reference for reference in GraphemesToPhonemes.references}
    made = ComparisonTable(G2P, "full", known, references)
    return "\n\n".join([made.markdown_table(), *made.notes()])


def g2p_commands() -> str:
    """The command, date and time of each row of `g2p`."""
    known = read_records(RESULTS / f"{G2P.name}-full")
    rows = [
        [
            each["row"],
            f"`{each['command']}`",
            each["date"],
            str(each["seed"]),
            f"{each['training_seconds'] / 60:.0f} min" if each.get("training_seconds") else "–",
            f"{each['seconds']:.0f} s",
        ]
        for each in known
    ]
    return table(["row", "command", "date", "seed", "training", "evaluation"], rows) if rows else MISSING


def commands() -> str:
    """The command, date, sizes and times of each of our results."""
    rows = [
        [
            f"`{run['command']}`",
            run["date"],
            str(run["seed"]),
            " / ".join(f"{run['sizes'][part]:,}" for part in ("train", "validation", "test")),
            f"{run['training_seconds'] / 60:.0f} min",
            f"{run['seconds']:.0f} s",
        ]
        for task in ("number-words", "smi2mol", "moses", "fp2mol", "fp2mol-moses", "coloring")
        for run in records(task)
    ]
    return table(["command", "date", "seed", "training / validation / test", "training", "evaluation"], rows)


def ruler() -> str:
    """The lower bound of the distance for the decoder `candidates`."""
    found = loaded("ruler.json")
    rows = [[number(found["ged_with_edges"]), number(found["ged_without_edges"]), str(found["sample"]), found["date"]]]
    return table(["GED with edges", "GED without edges", "test molecules", "date"], rows)


def speed() -> str:
    """Times of other implementations and of ours, with their ratios."""
    projection, ged = loaded("projection.json"), loaded("ged.json")
    rows = [
        [
            f"projection of {row['rows']:,} rows of {row['size']} on the simplex",
            "`torch.sort`, as in Duchi et al.",
            f"{row['textbook_ms']:.1f} ms / {row['ours_ms']:.1f} ms",
            f"{row['ratio']:.1f} ×",
            projection["date"][:10],
        ]
        for row in projection["results"]
    ]
    few = ged["ours_on_the_same_pairs"]
    rows.append(
        [
            f"edit distance of {ged['networkx']['pairs']} random QM9 pairs, equal values",
            "networkx",
            f"{ged['networkx']['seconds']:.1f} s / {1000 * few['seconds']:.1f} ms",
            f"{ged['ratio']:,.0f} ×",
            ged["date"][:10],
        ]
    )
    return table(["what", "peer", "time of the peer / ours", "ratio", "date"], rows)


def ged_by_size() -> str:
    """How often edit distances are exact within the default budget, by size, and the times beside those of others."""
    found = loaded("ged-by-size.json")
    rows = []
    for row in found["results"]:
        rows.append(
            [
                str(row["atoms"]),
                row["kind"],
                f"{100 * row['exact']:.0f} %",
                f"{row['mean_lower']:.1f} – {row['mean_upper']:.1f}",
                f"{row['milliseconds_a_pair']:.1f} ms",
                *(peer_cell(row[name], row["on_the_same_pairs"]["pairs"]) for name in ("networkx", "pygmtools")),
            ]
        )
    return table(["atoms", "pairs", "exact", "mean bounds", "time per pair", "networkx", "pygmtools"], rows)


def peer_cell(peer: dict[str, Any], pairs: int) -> str:
    """How many times as long a peer took for the same pairs; a lower bound if it did not finish all of them."""
    wrong = ", another value" if peer["differ"] else ""
    return f"{'' if peer['finished'] == pairs else '> '}{peer['ratio']:,.0f} ×{wrong}"


def sweep() -> str:
    """Our version of the paper's Figure 3: a share of the candidates, four ways to decode."""
    found = loaded("sweep/sweep.json")
    shares = sorted({record["share"] for record in found})
    rows = []
    for line in dict.fromkeys(record["line"] for record in found):
        own = {record["share"]: record["metrics"] for record in found if record["line"] == line}
        cells = [f"{number(own[s]['ged_with_edges'])}, {share(own[s]['exact'])}" if s in own else "–" for s in shares]
        rows.append([f"`{line}`", *cells])
    return table(["decoder", *(f"{100 * s:g} % of the candidates" for s in shares)], rows)


def regression() -> str:
    """The effect of each change of the regression, on validation pairs."""
    rows = [
        [
            run["variant"],
            ", ".join(f"`{change}`" for change in run["overrides"][1:]) or "–",
            f"{run['metrics']['regression_error']:.4f}",
            number(run["metrics"]["ged_with_edges"]),
            share(run["metrics"]["exact"]),
            f"{run['training_seconds'] / 60:.0f} min",
            run["date"],
        ]
        for run in loaded("regression.json")
    ]
    header = ["change", "options", "squared error", "GED with edges (search)", "exact (search)", "training", "date"]
    return table(header, rows)


def regression_curves() -> str:
    """The squared validation error along two full trainings."""
    curves = loaded("regression-curves.json")["curves"]
    errors = [dict(map(tuple, curve["validation_error"])) for curve in curves]
    common = sorted(set.intersection(*map(set, errors)))
    steps = [*common[1::4], *(common[-1:] if common[-1] not in common[1::4] else [])]
    rows = [[curve["change"], *(f"{e[step]:.4f}" for step in steps)] for curve, e in zip(curves, errors, strict=True)]
    return table(["change", *(f"step {step:,}" for step in steps)], rows)


def pgd() -> str:
    """The contribution of each part of pgd, on validation pairs."""
    rows = [
        [
            run["variant"],
            number(run["metrics"]["ged_with_edges"]),
            share(run["metrics"]["exact"]),
            f"{run['seconds']:.0f} s",
            run["date"],
        ]
        for run in loaded("pgd.json")
    ]
    return table(["pgd", "GED with edges", "exact", "time", "date"], rows)


def soft_points() -> str:
    """The effect of soft points in the training of the embedding on pgd, on the toy task."""
    found = loaded("soft-points.json")
    rows = [
        [
            run["variant"],
            f"{run['surrogate']['soft_points']:g}",
            share(run["metrics"]["exact"]),
            number(run["metrics"]["edit_distance"]),
            run["date"],
        ]
        for run in sorted(found, key=lambda run: run["variant"])
    ]
    return table(["pgd", "`surrogate.soft_points`", "exact", "edit distance", "date"], rows)


def search_time() -> str:
    """How fast search is, and how it spends its time."""
    rows = []
    for name, label in (("search.json", "ranked neighbours"), ("search-every-move.json", "all neighbours")):
        found = loaded(name)
        parts = found["share_of"]
        rows.append(
            [
                label,
                f"{found['inputs']:,}",
                share(found["exact"]),
                f"{found['evaluations']:,}",
                f"{found['seconds']:.0f} s",
                *(share(parts[part]) for part in ("encoder", "moves", "identities", "start", "bookkeeping")),
                found["date"],
            ]
        )
    header = ["scored", "molecules", "exact", "structures scored", "time"]
    return table([*header, "encoder", "moves", "identities", "start", "bookkeeping", "date"], rows)


def durability() -> str:
    """The speed-up by a second process."""
    found = loaded("durability.json")
    rows = [
        [
            f"a step of {stage}",
            f"{1000 * times['one_process']:.0f} ms",
            f"{1000 * times['two_processes']:.0f} ms",
            f"{times['ratio']:.2f} ×",
            found["date"],
        ]
        for stage, times in found["seconds_per_step"].items()
    ]
    return table(["what", "1 process, 2 threads", "2 processes, 1 thread each", "ratio", "date"], rows)


def drill_commands() -> str:
    """What came of commands that were killed, stopped, and given on disks without room."""
    found = loaded("drill.json")
    parts = {"kills": {}, "stops": {}, "disk": {}}
    for part, rows in parts.items():
        rows |= {row["command"]: row for row in found[part]}
    lines = []
    for command in dict.fromkeys(name for rows in parts.values() for name in rows):
        kills, stops, disk = (parts[part].get(command) for part in parts)
        lines.append(
            [
                command,
                f"{kills['times']}" if kills else "–",
                f"{kills['equal']} of {kills['rounds']}" if kills else "–",
                f"{stops['equal']} of {stops['rounds']}" if stops else "–",
                f"{disk['sentences']} of {disk['disks']}" if disk else "–",
                f"{disk['equal']} of {disk['disks']}" if disk else "–",
            ]
        )
    total = sum(row["times"] for row in found["kills"])
    lines.append(["all", f"{total} of {found['asked_for']['kills']} asked for", *["" for _ in range(4)]])
    heads = [
        "command",
        "kills",
        "equal after kills",
        "equal after SIGSTOP",
        "full disk: a sentence",
        "equal once there is room",
    ]
    return table(heads, lines)


def drill_folders() -> str:
    """What came of reading damaged run folders."""
    found = loaded("drill.json")
    names = ("folders", "refused", "named", "no_effect", "changed", "errors", "code_ran")
    rows = [[row["way"], *(f"{row[name]:,}" for name in names), found["date"]] for row in found["folders"]]
    heads = ["manifest", "folders", "refused", "named", "no effect", "another answer", "tracebacks", "code run", "date"]
    return table(heads, rows)


def drill_inputs() -> str:
    """What came of random inputs."""
    found = loaded("drill.json")
    rows = [
        [
            row["format"],
            f"{row['inputs']:,}",
            f"{row['read']:,}",
            f"{row['refused']:,}",
            f"{row['failed']:,}",
            f"{1000 * row['slowest_seconds']:.0f} ms",
            found["date"],
        ]
        for row in found["inputs"]
    ]
    return table(["format", "inputs", "read", "refused", "failed", "slowest", "date"], rows)


def install() -> str:
    """The size of an installation, before and now."""
    found = loaded("install.json")
    names = {"0.1.0": "`pip install .` at 0.1.0", "plain": "`pip install .`", "extras": f"`.[{found['extras']}]`"}
    rows = [
        [names[row["install"]], str(row["packages"]), f"{row['megabytes']:,.0f} MB", found["date"]]
        for row in found["results"]
    ]
    return table(["installation", "packages", "size", "date"], rows)


def checkpoints() -> str:
    """The time that checkpoints take."""
    found = loaded("durability.json")
    saves = found["checkpoints"]
    cells = [
        f"{saves['every_seconds']:.0f} s",
        f"{saves['training_seconds']:.0f} s",
        str(saves["saves"]),
        f"{1000 * saves['seconds_each']:.0f} ms",
        f"{saves['per_cent']:.2f} %",
        found["date"],
    ]
    return table(["interval", "training", "checkpoints", "each", "overhead", "date"], [cells])


def startup() -> str:
    """The CPU time of a prediction beside that of `import torch`."""
    found = loaded("startup.json")
    rows = [
        [f"`{name}`", f"{each['cpu_seconds']:.2f} s", f"{each['ratio']:.2f} ×", found["date"]]
        for name, each in found["programs"].items()
    ]
    return table(["program", "CPU time", "to `import torch`", "date"], rows)


def learning_curves() -> str:
    """The defaults on a user's own file, by the number of pairs, beside predictions without a model."""
    rows = []
    for each in loaded("learning-curves.json")["results"]:
        metric, (copied, frequent) = each["metric"], each["baselines"].values()
        model = each["model"][metric]
        rows.append(
            [
                each["set"],
                f"{each['pairs']:,}",
                metric.replace("_", " "),
                f"{model:.2f}",
                f"{copied[metric]:.2f}",
                f"{frequent[metric]:.2f}",
                f"{100 * (1 - model / copied[metric]):.0f} %",
                f"{100 * each['model']['exact']:.1f} %",
                f"{100 * copied['exact']:.1f} %",
                f"{each['seconds']['training'] / 60:.0f} min",
                each["date"],
            ]
        )
    head = ["data", "pairs", "distance", "defaults", "copying", "most frequent", "ahead of copying", "exact"]
    return table([*head, "exact, copying", "training", "date"], rows)


def round_trip() -> str:
    """The share of molecules that come back unchanged, and the kinds of those that do not."""
    rows = [
        [
            f"`{row['source']}`" + (f", the first {row['limit']:,}" if row["limit"] else ""),
            f"{row['molecules']:,}",
            f"{row['came back']:,}",
            f"{100 * row['share']:.2f} %",
            "; ".join(f"{each['kind']} {each['count']:,}, such as `{each['example']}`" for each in row["did not"])
            or "–",
            row["date"],
        ]
        for row in loaded("round-trip.json")["results"]
    ]
    return table(["molecules of", "distinct", "came back", "share", "did not come back", "date"], rows)


def same_results() -> str:
    """The runs that are equal to those of an earlier revision, and their times."""
    found = loaded("same-results.json")
    rows = [
        [
            row["run"],
            f"{row['equal']} of {row['equal'] + len(row['different'])}",
            *(f"{seconds:.1f} s" for seconds in row["seconds"]),
            f"{row['ratio']:.2f}",
            found["date"],
        ]
        for row in found["runs"]
    ]
    return table(["run", "files equal", "time before", "time now", "ratio", "date"], rows)


def table1(scale: str) -> str:
    """The paper's table, reproduced at one scale."""
    known = up_to_date(read_records(RESULTS / "reproduction" / f"{TABLE1.name}-{scale}"), {})
    known += ours_elsewhere() if scale == "full" and not any(r["row"] == "ours" for r in known) else []
    references = {reference.name: reference for reference in SmilesToMolecule.references}
    made = ComparisonTable(TABLE1, scale, known, references)
    first, *others = made.notes()
    return "\n\n".join([first, made.markdown_table(), *others])


def ours_elsewhere() -> list[dict[str, Any]]:
    """The row *ours* at full scale, from the evaluation of `ele train smi2mol` with its default options."""
    return [
        {**record, "row": "ours"}
        for record in records("smi2mol")
        if record["decoder"]["name"] == "search" and not record["oracle"]
    ]


def table1_oracle(scale: str) -> str:
    """Rows decoded from the true embedding as well: the error that the embedding and the decoder leave."""
    rows = []
    for file in sorted((RESULTS / "reproduction" / f"oracle-{scale}").glob("*.json")):
        own, oracle = loaded(f"reproduction/table1-{scale}/{file.stem}-seed0.json"), json.loads(file.read_text("utf-8"))
        distances = [number(each["metrics"]["ged_with_edges"]) for each in (own, oracle)]
        rows.append([own["row"], *distances, share(oracle["metrics"]["exact"])])
    return table(
        ["method, seed 0", "GED with edges", "from the true embedding", "exact, from the true embedding"], rows
    )


TRUSTED = {"search": "`search`", "search-wide": "`search`, width 12, 100 structures"}
"""The records of trust, by file, and how their decoders are called."""


def trust(name: str = "search") -> dict[str, Any] | None:
    """A record of benchmarks/trust.py; None if there is none."""
    file = RESULTS / "trust" / f"{name}.json"
    return json.loads(file.read_text("utf-8")) if file.is_file() else None


def trust_confidence() -> str:
    """Area under the curve and calibration error of confidence, and of each signal alone."""
    if (found := trust()) is None:
        return MISSING
    test = found["test"]
    head = f"Of {test['examples']:,} test molecules {share(test['exact'])} are exact.\n\n"
    rows = [["**confidence**", f"{test['auc']:.3f}", f"{test['calibration_error']:.3f}"]]
    rows += [[f"{name} alone", f"{value:.3f}", "–"] for name, value in test["signals"].items()]
    expected = test["expected"]
    tail = f"Mean expected `{expected['metric']}` {expected['expected']:.3f}, measured {expected['measured']:.3f}."
    return f"{head}{table(['', 'area under the curve', 'calibration error'], rows)}\n\n{tail}"


def trust_accepted() -> str:
    """How many answers have at least a confidence, and how many of them are wrong."""
    if (found := trust()) is None:
        return MISSING
    rows = [
        [f"{row['least_confidence']:g}", f"{row['accepted']:,}", f"{row['accepted'] - row['exact']:,}"]
        for row in found["test"]["accepted"]
    ]
    return table(["confidence at least", f"accepted of {found['test']['examples']:,}", "wrong among them"], rows)


def trust_set_row(first: Sequence[str], row: dict[str, Any]) -> list[str]:
    """The measured coverage and the sizes of the sets of one promise."""
    if "refused" in row:
        return [*first, "cannot be promised", "–", "–", "–", "–"]
    held = f"{row['covered']:.3f} ({row['standard_error']:.3f})"
    return [*first, held, f"{row['mean_size']:.2f}", f"{row['median_size']:g}", share(row["empty"]), share(row["cut"])]


SETS = ["asked for", "holds the truth (by chance ±)", "mean size", "median", "empty", "cut"]


def trust_sets() -> str:
    """Coverage and sizes of prediction sets on the test pairs."""
    runs = [(label, found) for name, label in TRUSTED.items() if (found := trust(name)) is not None]
    rows = [trust_set_row([label, f"{s['coverage']:g}"], s) for label, found in runs for s in found["test"]["sets"]]
    return table(["decoder", *SETS], rows) if rows else MISSING


def trust_library() -> str:
    """Coverage and sizes of sets from a fixed library."""
    if (found := trust()) is None:
        return MISSING
    rows = [
        trust_set_row([f"{each['library']} ({each['structures']:,})", f"{own['coverage']:g}"], own)
        for each in found["library"]
        for own in each["sets"]
    ]
    return table(["library", *SETS], rows)


def trust_divisions() -> str:
    """Mean coverage over random divisions."""
    runs = [(label, found) for name, label in TRUSTED.items() if (found := trust(name)) is not None]
    rows = [
        [label, f"{row['coverage']:g}", f"{row['mean']:.4f}", f"{row['deviation']:.4f}"]
        for label, found in runs
        for row in found["divisions"]
    ]
    return table(["decoder", "asked for", "mean of 1,000 divisions", "standard deviation"], rows) if rows else MISSING


def trust_sizes() -> str:
    """Coverage for each size at 0.9, with one threshold and with one for each group."""
    if (found := trust()) is None:
        return MISSING
    plain = next(own for own in found["test"]["sets"] if own["coverage"] == 0.9)
    (name,) = list(plain["by_property"])[:1]
    own = next(s for s in found["by_property"] if s["promise"] == f"coverage 0.9 for each {name}")
    each = {row["value"]: row["covered"] for row in own.get("by_property", {}).get(name, [])}
    rows = [
        [f"{row['value']:g}", f"{row['examples']:,}", f"{row['covered']:.3f}", f"{each.get(row['value'], 0):.3f}"]
        for row in plain["by_property"][name]
    ]
    rows.append(["mean set size", "", f"{plain['mean_size']:.2f}", f"{own.get('mean_size', 0):.2f}"])
    shown = table([name, "test pairs", "coverage 0.9", f"coverage 0.9, `--by {name}`"], rows)
    groups = [
        f"{row['from']:g} to {row['to']:g} {name} {row['mean']:.3f} ± {row['deviation']:.3f}"
        for row in found["divisions_by_property"][name]
    ]
    return f"{shown}\n\nOver 1,000 divisions, with a threshold for each group: {', '.join(groups)}."


def trust_risks() -> str:
    """Measured distance to the nearest structure of sets with a bounded risk."""
    if (found := trust()) is None:
        return MISSING
    rows = []
    for row in found["risks"]:
        refused = "refused" in row
        measured = ["cannot be promised", "–"] if refused else [f"{row['measured']:.3f}", f"{row['mean_size']:.2f}"]
        rows.append([f"{row['risk']:g}", *measured])
    return table(["risk asked for", "measured", "mean set size"], rows)


def trainings(record: dict[str, Any]) -> list[dict[str, Any]]:
    """How surrogate and regressor of a record were trained."""
    return [record["config"][part]["training"] for part in ("surrogate", "regressor")]


def trust_commands() -> str:
    """The command, date and training of each record."""
    runs = [found for name in TRUSTED if (found := trust(name)) is not None]
    rows = [
        [
            f"`{found['command']}`",
            found["date"],
            str(found["seed"]),
            f"{found['sizes']['train']:,} / {found['sizes']['calibration']:,} / {found['sizes']['test']:,}",
            " and ".join(f"{part['epochs']:g}" for part in trainings(found)),
        ]
        for found in runs
    ]
    return (
        table(["command", "date", "seed", "training / calibration / test pairs", "epochs"], rows) if rows else MISSING
    )


def mistakes() -> str:
    """The mistakes of plugin authors that the checks find, by kind, and those that they do not."""
    record = loaded("mistakes.json")
    listed, earlier = record["mistakes"], set(record["earlier"])
    kinds = list(dict.fromkeys(each["kind"] for each in listed))
    rows = []
    for kind in (*kinds, None):
        own = [each for each in listed if kind in (None, each["kind"])]
        counts = (len(own), sum(each["name"] in earlier for each in own), sum(bool(each["caught_by"]) for each in own))
        rows.append([kind or "**all**", *map(str, counts)])
    missed = [f"- `{each['name']}`: {each['what']}" for each in listed if not each["caught_by"]]
    header = ["mistakes in", "on the list", "found before these checks", "found"]
    return "\n".join([table(header, rows), "", "Not found:", "", *missed])


def loaded(name: str) -> Any:
    """Load a file of the recorded results."""
    return json.loads((RESULTS / name).read_text("utf-8"))


def records(task: str) -> list[dict[str, Any]]:
    """The evaluations of a task: real queries first, then oracles; the weakest decoder first."""
    found = [json.loads(file.read_text("utf-8")) for file in sorted((RESULTS / task).glob("*.json"))]
    order = {"candidates": 0, "pgd": 1, "search": 2}
    return sorted(found, key=lambda run: (run["oracle"], order[run["decoder"]["name"]]))


def search_size() -> str:
    """The time of a round of `search` by the size of molecules, and its figure."""
    found = loaded("search-size.json")
    rows = [
        [
            str(row["atoms"]),
            f"`{row['surrogate']}`",
            f"{row['moves']:,}",
            f"{row['ranked_ms']:,.0f} ms",
            "–" if row["every_move_ms"] is None else f"{row['every_move_ms']:,.0f} ms",
            "–" if row["every_move_ms"] is None else f"{row['every_move_ms'] / row['ranked_ms']:.0f}",
            row["same_best"] or "–",
        ]
        for row in found["rows"]
    ]
    head = [
        "atoms",
        "surrogate",
        "moves of a structure",
        "a round",
        "scoring every move",
        "ratio",
        "same best structure",
    ]
    growth = ", ".join(f"{power:.2f} for `{name}`" for name, power in found["exponent"].items())
    return f"{table(head, rows)}\n\nExponent of the time over the number of atoms: {growth} ({found['date']})."


def keys() -> str:
    """Whether keys tell molecules apart as canonical SMILES do."""
    found = loaded("keys.json")
    rows = [
        [
            row["molecules"],
            "one molecule" if row["resonance"] else "different",
            f"{row['different']:,}",
            str(row["collisions"]),
            str(row["keys_that_depend_on_the_order"]),
            f"{row['microseconds_per_key']:.1f} µs",
        ]
        for row in found["rows"]
    ]
    head = [
        "molecules",
        "resonance forms are",
        "different SMILES",
        "equal keys",
        "depend on the order",
        "CPU time per key",
    ]
    return f"{table(head, rows)}\n\nMeasured on {found['date']}."


def neighbours() -> str:
    """The time and memory of a search for neighbours, by the number of structures that are searched."""
    if not (RESULTS / "neighbours.json").exists():
        return MISSING
    found = loaded("neighbours.json")
    rows = [
        [
            f"{each['rows']:,}",
            f"{each['computed']['seconds']:,.0f} s",
            f"{each['computed']['cpu_seconds']:,.0f} s",
            f"{each['computed']['peak_megabytes']:,} MB",
            f"{each['from_cache']['seconds']:,.0f} s",
            f"{each['from_cache']['cpu_seconds']:,.0f} s",
            f"{each['from_cache']['peak_megabytes']:,} MB",
            f"{each['cache_megabytes']:,} MB",
            found["date"],
        ]
        for each in found["results"]
    ]
    header = ["molecules", "search", "CPU", "memory", "from the cache", "CPU", "memory", "cache", "date"]
    return f"{table(header, rows)}\n\n`{found['command']}`"


def learned_distance() -> str:
    """Rank correlations of distances with the edit distance, for each kind of pairs."""
    if not (RESULTS / "learned-distance.json").exists():
        return MISSING
    found = loaded("learned-distance.json")
    names = {
        "random": "two test molecules",
        "moves": "a test molecule, and 1 to 6 random moves from it",
        "nearest": "a test molecule, and one of its ten nearest training molecules",
    }
    measures = list(found["kinds"]["random"]["spearman"])
    rows = [
        [
            names[kind],
            f"{pairs['pairs']:,}",
            f"{pairs['mean_ged']:.1f}",
            *(f"{pairs['spearman'][name]['rho']:.3f} ± {pairs['spearman'][name]['error']:.3f}" for name in measures),
        ]
        for kind, pairs in found["kinds"].items()
    ]
    header = ["pairs", "number", "mean GED", *measures]
    return f"{table(header, rows)}\n\n`{found['command']}` ({found['date']}, seed {found['seed']})"


def name_of(run: dict[str, Any]) -> str:
    """The decoder, the constraints that were given, and whether its query was the true embedding."""
    given = f" with the {' and '.join(run['given'])} given" if run.get("given") else ""
    return f"`{run['decoder']['name']}`{given}" + (" from the true embedding (oracle)" if run["oracle"] else "")


def number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def share(value: float) -> str:
    return f"{100 * value:.1f} %"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


TABLES: dict[str, Callable[[], str]] = {
    "trust-confidence": trust_confidence,
    "trust-accepted": trust_accepted,
    "trust-sets": trust_sets,
    "trust-library": trust_library,
    "trust-divisions": trust_divisions,
    "trust-sizes": trust_sizes,
    "trust-risks": trust_risks,
    "trust-commands": trust_commands,
    "drill-commands": drill_commands,
    "drill-folders": drill_folders,
    "drill-inputs": drill_inputs,
    "smi2mol": smi2mol,
    "moses": moses,
    "ms2mol": ms2mol,
    "ms2mol-de-novo": ms2mol_de_novo,
    "ms2mol-commands": ms2mol_commands,
    "moses-atoms": partial(exact_by, "moses", "atoms"),
    "fp2mol": partial(fp2mol, "fp2mol", FingerprintToMolecule.references),
    "fp2mol-moses": partial(fp2mol, "fp2mol-moses"),
    "fp2mol-study": partial(study_table, QM9_TABLE, "full"),
    "fp2mol-top-k": partial(top_k, "fp2mol"),
    "fp2mol-atoms": partial(exact_by, "fp2mol", "atoms"),
    "coloring": coloring,
    "coloring-nodes": lambda: exact_by("coloring", "nodes", of_cells(10)),
    "coloring-20-nodes": lambda: exact_by("coloring", "nodes", of_cells(20)),
    "without-a-parser": without_a_parser,
    "number-words": number_words,
    "g2p": g2p,
    "g2p-commands": g2p_commands,
    "mistakes": mistakes,
    "commands": commands,
    "ruler": ruler,
    "speed": speed,
    "ged-by-size": ged_by_size,
    "sweep": sweep,
    "regression": regression,
    "regression-curves": regression_curves,
    "pgd": pgd,
    "soft-points": soft_points,
    "search-time": search_time,
    "search-size": search_size,
    "keys": keys,
    "neighbours": neighbours,
    "learned-distance": learned_distance,
    "durability": durability,
    "install": install,
    "checkpoints": checkpoints,
    "startup": startup,
    "round-trip": round_trip,
    "same-results": same_results,
    "learning-curves": learning_curves,
    **{f"table1-{scale}": partial(table1, scale) for scale in TABLE1.scales},
    **{f"oracle-{scale}": partial(table1_oracle, scale) for scale in TABLE1.scales},
}

if __name__ == "__main__":
    main()
