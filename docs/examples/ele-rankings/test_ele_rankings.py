"""Rankings keep every law of an output space."""

from ele_rankings import RankingSpace

from ele_core.testing import OutputSpaceContract


class TestRankings(OutputSpaceContract):
    def space(self):
        return RankingSpace(RankingSpace.Config(items=("apples", "pears", "plums", "quinces")))
