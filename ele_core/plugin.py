"""The plugin of `ele_core` itself: import strings, like in any plugin, so that listing it imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterator

from ele_core.plugins import Record, hookimpl


@hookimpl
def ele_encoders() -> Iterator[Record]:
    """A generic encoder, so that an output space alone is enough."""
    yield Record(
        "flat", "ele_core.components.encoders.flat:FlatEncoder", "A multilayer perceptron on any point, flattened."
    )
    yield Record(
        "blocks",
        "ele_core.components.encoders.additive:BlocksEncoder",
        "Smooth random features of every block of any point, added up.",
    )


@hookimpl
def ele_surrogates() -> Iterator[Record]:
    """The loss embedding of the paper, and kernels."""
    yield Record(
        "contrastive",
        "ele_core.components.surrogates.contrastive:ContrastiveSurrogate",
        "An embedding on the sphere, learned from outputs alone by contrastive learning.",
    )
    yield Record(
        "sketched-kernel",
        "ele_core.components.surrogates.kernel:SketchedKernelSurrogate",
        "A kernel on the parts of outputs, sketched: DSOKR's loss, for any space.",
    )
    yield Record(
        "parts",
        "ele_core.components.surrogates.parts:PartsSurrogate",
        "A fixed embedding that adds up the parts of a structure: for few pairs.",
    )
    yield Record(
        "centred-parts",
        "ele_core.components.surrogates.parts:CentredPartsSurrogate",
        "The direction of `parts` from the mean: for inputs that tell only a part of the output.",
    )


@hookimpl
def ele_input_spaces() -> Iterator[Record]:
    """Texts, vectors, signals, sets of features and pictures, and several of them at once."""
    yield Record(
        "text", "ele_core.components.inputs.text:TextInput", "Texts, cut into tokens by a vocabulary learned from them."
    )
    yield Record("vector", "ele_core.components.inputs.vector:VectorInput", "Vectors of numbers, standardised.")
    yield Record(
        "signal", "ele_core.components.inputs.signal:SignalInput", "Series of numbers over time, of any length."
    )
    yield Record("bits", "ele_core.components.inputs.bits:BitsInput", "Sets of numbered features with counts.")
    yield Record(
        "columns",
        "ele_core.components.inputs.columns:ColumnsInput",
        "Several columns of different kinds, each with an input space of its own.",
    )
    yield Record("image", "ele_core.components.inputs.image:ImageInput", "Pictures of one size: PNG files or arrays.")


@hookimpl
def ele_backbones() -> Iterator[Record]:
    """Networks on texts, on vectors, on signals, on sets of features and on pictures, and on several of them."""
    yield Record(
        "gru",
        "ele_core.components.backbones.gru:GRUBackbone",
        "A bidirectional GRU over tokens: the best per CPU second.",
    )
    yield Record(
        "transformer", "ele_core.components.backbones.transformer:TransformerBackbone", "A Transformer over tokens."
    )
    yield Record("mlp", "ele_core.components.backbones.mlp:MLPBackbone", "A multilayer perceptron on vectors.")
    yield Record(
        "bag",
        "ele_core.components.backbones.bag:BagBackbone",
        "The sum of learned vectors of features, then residual layers.",
    )
    yield Record(
        "columns",
        "ele_core.components.backbones.columns:ColumnsBackbone",
        "One network for each of several columns, their outputs joined.",
    )
    yield Record(
        "convolution",
        "ele_core.components.backbones.convolution:ConvolutionBackbone",
        "A residual convolutional network on pictures.",
    )
    yield Record(
        "convolution-1d",
        "ele_core.components.backbones.convolution_1d:Convolution1dBackbone",
        "A residual convolutional network over time, on signals.",
    )


@hookimpl
def ele_regressors() -> Iterator[Record]:
    """The regression of the paper, kernel ridge regression, and mixtures of several."""
    yield Record(
        "neural",
        "ele_core.components.regressors.neural:NeuralRegressor",
        "A backbone trained by squared error on embeddings.",
    )
    yield Record(
        "sketched-ridge",
        "ele_core.components.regressors.ridge:SketchedRidgeRegressor",
        "Ridge regression from a sketched input kernel, in closed form: SISOKR's.",
    )
    yield Record(
        "nearest-input",
        "ele_core.components.regressors.nearest:NearestRegressor",
        "The output of the nearest training input: the baseline.",
    )
    yield Record(
        "stacked",
        "ele_core.components.regressors.stacked:StackedRegressor",
        "A network and a kernel, added up as suits the validation pairs.",
    )
    yield Record(
        "joint",
        "ele_core.components.regressors.joint:JointRegressor",
        "The learned loss and proposers, their energies added up as suits the validation pairs.",
    )
    yield Record(
        "ensemble",
        "ele_core.components.regressors.ensemble:EnsembleRegressor",
        "A regressor trained several times and averaged.",
    )


@hookimpl
def ele_proposers() -> Iterator[Record]:
    """A network that writes structures of any space, log-odds for blocks with fixed places, and counts of n-grams."""
    yield Record(
        "writer",
        "ele_core.components.proposers.writer:WriterProposer",
        "A network with attention that writes a structure's text, token by token, and may copy from its input.",
    )
    yield Record(
        "blocks",
        "ele_core.components.proposers.blocks:BlocksProposer",
        "Log-odds for each block of a structure, trained by cross-entropy; the likeliest structure is exact.",
    )
    yield Record(
        "joint-ngram",
        "ele_core.components.proposers.aligned:JointNgramProposer",
        "N-grams of the tokens of texts aligned with those of outputs.",
    )


@hookimpl
def ele_decoders() -> Iterator[Record]:
    """The two decoders of the paper, and search."""
    yield Record(
        "candidates", "ele_core.components.decoders.candidates:CandidatesDecoder", "The best of the training outputs."
    )
    yield Record(
        "pgd",
        "ele_core.components.decoders.gradient:GradientDecoder",
        "Projected gradient descent over relaxed structures.",
    )
    yield Record(
        "search",
        "ele_core.components.decoders.search:SearchDecoder",
        "Beam search over small moves, scored by the loss.",
    )


@hookimpl
def ele_indexes() -> Iterator[Record]:
    """All vectors compared, and inverted lists for millions."""
    yield Record("exact", "ele_core.components.indexes.exact:ExactIndex", "Every vector is compared: exact.")
    yield Record(
        "faiss",
        "ele_core.components.indexes.inverted:InvertedIndex",
        "Inverted lists of compressed codes, for millions of vectors; the likeliest are ranked exactly.",
        needs=("faiss",),
        extra="index",
    )
