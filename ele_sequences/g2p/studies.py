"""The comparison of `ele reproduce g2p`: decoders and rivals on the same split."""

from __future__ import annotations

from ele_core import Row, Scale, Table
from ele_sequences.g2p.rivals.attention import Attention
from ele_sequences.g2p.rivals.phonetisaurus import EXTRA, Phonetisaurus

DICTIONARY = {"cmudict": "task.path"}
"""A dictionary with its own split is given as a path."""
ONCE = ("regressor.network.members=1", "regressor.network.member.training.epochs=1")
SMALL = Scale("one network, one epoch, 1,000 test words; a few minutes on one core.", ONCE, limit=1000)
FULL = Scale("all training and test words; about an hour on one core.")
SPLIT = ("cmudict",)
"""Every row: rows on other splits could not be compared."""
MINUTES = {"small": 1, "full": 2}
FEWER = {"full": 1000, "small": 200}
"""Fewer test words for rows that show what a part of the method does."""
FEWEST = {"full": 100, "small": 50}
"""Even fewer where a word is compared with every training output."""

TABLE = Table(
    name="g2p",
    title="From spelling to phonemes on CMUdict",
    scales={"full": FULL, "small": SMALL},
    files=DICTIONARY,
    metrics=("wer", "per", "exact", "edit_distance"),
    rows=(
        Row("ELE", files=SPLIT, minutes={"small": 3, "full": 15}),
        Row("ELE, candidates", ("decoder=candidates",), files=SPLIT, limits=FEWEST, minutes=MINUTES),
        Row("ELE, oracle", files=SPLIT, oracle=True, limits=FEWER, minutes=MINUTES),
        Row(
            "Phonetisaurus",
            files=SPLIT,
            rival=Phonetisaurus(),
            reference="Phonetisaurus",
            packages={"phonetisaurus": EXTRA},
            minutes={"small": 3, "full": 5},
        ),
        Row("attention", files=SPLIT, rival=Attention(), minutes={"small": 12, "full": 12}),
    ),
)
STUDIES = (TABLE,)
