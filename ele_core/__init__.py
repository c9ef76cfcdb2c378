"""ELE: structured prediction with a learned, differentiable loss, for any output space.

The public names are listed in `__init__.pyi`. Each is imported when it is first used: `import ele_core` does not import
torch. What is not listed there may change in any version. The folders, in the order in which data flows:

    data         pairs of inputs and outputs: read, checked, split, packed, drawn in batches
    interfaces   the contract: spaces, surrogate, regressor, decoder, energy
    networks     backbones
    sources      tasks and file readers
    component    what every component is
    optional     what an output space may bring: texts, moves, rules, drawings
    types        the data types of these: what components pass to each other
    plugins      finds components by name among the installed plugins
    config       the configuration of a run: its schema, and the components that it chooses
    components   the components that ship with the core, a folder for each kind
    model        a model: trained, evaluated, used to predict, kept as files
    runs         a training in a folder: started, resumed, evaluated, recorded
    predictor    `StructuredPredictor`: all of it behind `fit` and `predict`
    experiments  many runs: sweeps, searches for options, the tables and figures of a paper
    report       a run as one HTML page
    testing      the laws of components, to check plugins with
    scaffold     the package that `ele new-plugin` writes
    cli          the `ele` command

Beneath them:

    runtime      what work is carried out in: seed, device, processes, checkpoints, signals
    numerics     pure functions on tensors: batches, keys, projections, convex sets
    files        atomic writes, locks, archives, tables
    display      tables and pictures for notebooks
    errors       every error that ELE raises on purpose
    extras       packages that a plain install does not bring
"""

import lazy_loader

__version__ = "0.2.0.dev0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
