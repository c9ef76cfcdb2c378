"""The plugin of `ele_core` itself: import strings, like in any plugin, so that listing it imports nothing heavy."""

from __future__ import annotations

from ele_core.plugins import Record, hookimpl


def records(folder: str, *rows: tuple[str, str, str]) -> list[Record]:
    """Records of classes in a folder of `components`, each given as its name, `"module:Class"` and summary."""
    return [Record(name, f"ele_core.components.{folder}.{target}", summary) for name, target, summary in rows]


@hookimpl
def ele_encoders() -> list[Record]:
    """A generic encoder, so that an output space alone is enough."""
    return records(
        "encoders",
        ("flat", "flat:FlatEncoder", "A multilayer perceptron on any point, flattened."),
        ("blocks", "additive:BlocksEncoder", "Smooth random features of every block of any point, added up."),
    )


@hookimpl
def ele_surrogates() -> list[Record]:
    """The loss embedding of the paper, and kernels."""
    return records(
        "surrogates",
        (
            "contrastive",
            "contrastive:ContrastiveSurrogate",
            "An embedding on the sphere, learned from outputs alone by contrastive learning.",
        ),
        (
            "sketched-kernel",
            "kernel:SketchedKernelSurrogate",
            "A kernel on the parts of outputs, sketched: DSOKR's loss, for any space.",
        ),
        ("parts", "parts:PartsSurrogate", "A fixed embedding that adds up the parts of a structure: for few pairs."),
        (
            "centred-parts",
            "parts:CentredPartsSurrogate",
            "The direction of `parts` from the mean: for inputs that tell only a part of the output.",
        ),
    )


@hookimpl
def ele_input_spaces() -> list[Record]:
    """Texts, vectors, signals, sets of features and pictures, and several of them at once."""
    return records(
        "inputs",
        ("text", "text:TextInput", "Texts, cut into tokens by a vocabulary learned from them."),
        ("vector", "vector:VectorInput", "Vectors of numbers, standardised."),
        ("signal", "signal:SignalInput", "Series of numbers over time, of any length."),
        ("bits", "bits:BitsInput", "Sets of numbered features with counts."),
        ("columns", "columns:ColumnsInput", "Several columns of different kinds, each with an input space of its own."),
        ("image", "image:ImageInput", "Pictures of one size: PNG files or arrays."),
    )


@hookimpl
def ele_backbones() -> list[Record]:
    """Networks on texts, on vectors, on signals, on sets of features and on pictures, and on several of them."""
    return records(
        "backbones",
        ("gru", "gru:GRUBackbone", "A bidirectional GRU over tokens: the best per CPU second."),
        ("transformer", "transformer:TransformerBackbone", "A Transformer over tokens."),
        ("mlp", "mlp:MLPBackbone", "A multilayer perceptron on vectors."),
        ("bag", "bag:BagBackbone", "The sum of learned vectors of features, then residual layers."),
        ("columns", "columns:ColumnsBackbone", "One network for each of several columns, their outputs joined."),
        ("convolution", "convolution:ConvolutionBackbone", "A residual convolutional network on pictures."),
        (
            "convolution-1d",
            "convolution_1d:Convolution1dBackbone",
            "A residual convolutional network over time, on signals.",
        ),
    )


@hookimpl
def ele_regressors() -> list[Record]:
    """The regression of the paper, kernel ridge regression, and mixtures of several."""
    return records(
        "regressors",
        ("neural", "neural:NeuralRegressor", "A backbone trained by squared error on embeddings."),
        (
            "sketched-ridge",
            "ridge:SketchedRidgeRegressor",
            "Ridge regression from a sketched input kernel, in closed form: SISOKR's.",
        ),
        ("nearest-input", "nearest:NearestRegressor", "The output of the nearest training input: the baseline."),
        ("stacked", "stacked:StackedRegressor", "A network and a kernel, added up as suits the validation pairs."),
        (
            "joint",
            "joint:JointRegressor",
            "The learned loss and proposers, their energies added up as suits the validation pairs.",
        ),
        ("ensemble", "ensemble:EnsembleRegressor", "A regressor trained several times and averaged."),
    )


@hookimpl
def ele_proposers() -> list[Record]:
    """A network that writes structures of any space, log-odds for blocks with fixed places, and counts of n-grams."""
    return records(
        "proposers",
        (
            "writer",
            "writer:WriterProposer",
            "A network with attention that writes a structure's text, token by token, and may copy from its input.",
        ),
        (
            "blocks",
            "blocks:BlocksProposer",
            "Log-odds for each block of a structure, trained by cross-entropy; the likeliest structure is exact.",
        ),
        ("joint-ngram", "aligned:JointNgramProposer", "N-grams of the tokens of texts aligned with those of outputs."),
    )


@hookimpl
def ele_decoders() -> list[Record]:
    """The two decoders of the paper, and search."""
    return records(
        "decoders",
        ("candidates", "candidates:CandidatesDecoder", "The best of the training outputs."),
        ("pgd", "gradient:GradientDecoder", "Projected gradient descent over relaxed structures."),
        ("search", "search:SearchDecoder", "Beam search over small moves, scored by the loss."),
    )


@hookimpl
def ele_indexes() -> list[Record]:
    """All vectors compared, and inverted lists for millions."""
    return [
        *records("indexes", ("exact", "exact:ExactIndex", "Every vector is compared: exact.")),
        Record(
            "faiss",
            "ele_core.components.indexes.inverted:InvertedIndex",
            "Inverted lists of compressed codes, for millions of vectors; the likeliest are ranked exactly.",
            needs=("faiss",),
            extra="index",
        ),
    ]
