"""`ele export`: a model as ONNX and numpy files, for programs without ELE."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from ele_core.cli import options


@click.command()
@options.run
@click.option("-o", "--output-folder", "folder", required=True, metavar="FOLDER", help="The new folder to write.")
@options.as_json
@options.output
def export(run: str, folder: str, console: options.Console) -> None:
    """Write a model as ONNX, for programs without ELE and torch.

    The script FOLDER/predict.py answers with the candidate that is nearest by the learned loss; numpy and onnxruntime
    are all that it needs. That is not always what ele predict answers: proposers, decoders that build new structures
    and confidence are left out, and the command and FOLDER/README.md say which of them the model has. Before FOLDER is
    there, its distances are compared with those of ELE.

    RUN is a run folder, a folder that StructuredPredictor.save wrote, or an installed model. It must read texts or
    vectors, with a network or a kernel. Needs the extra: pip install 'explicit-loss-embedding[export]'

    \b
    ele export run -o exported
    python exported/predict.py "forty-two"
    """
    import torch

    from ele_core.errors import counted
    from ele_core.model.export import export as written
    from ele_core.model.pretrained import shown_name
    from ele_core.runs.run import open_model

    opened = open_model(Path(run), options.registry())
    model = opened.model({}, torch.device("cpu"))
    console.configuration(model.config)
    found = written(model, shown_name(opened.folder), Path(folder))
    console.show(f"Written: {folder}, with {counted(found.candidates, 'candidate')}; distances are those of ELE.")
    console.show("\n".join(["Left out:", *(f"  {each}" for each in found.left_out)]))
    console.hint(f"Try it: python {shlex.quote(str(Path(folder) / 'predict.py'))} INPUT")
    console.json({"folder": folder, "candidates": found.candidates, "dim": found.dim, "left_out": [*found.left_out]})
