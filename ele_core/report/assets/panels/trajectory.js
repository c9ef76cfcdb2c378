// The decodings of a report: choose a decoder and an example, then follow its steps.
const WAYS = DATA.trajectories;

function showChosen() {
  const chosen = WAYS[Number(byId("way-example").value)];
  showWay({
    ...chosen, stored: DATA.drawings, goal: chosen.truth, about: [["input", ROWS.input[chosen.row]]],
    facts: (i) => [["energy", number(chosen.energies[i])], [PRIMARY.label, scoreText(PRIMARY, chosen.scores[i], chosen.best_scores[i])]],
  });
}

// How much a decoding improved: the one that improved most is shown first.
const gain = (w) => (PRIMARY.better === "min" ? w.scores[0] - w.scores.at(-1) : w.scores.at(-1) - w.scores[0]) + new Set(w.drawings).size / 100;

function showExamples() {
  const decoder = byId("way-decoder").value;
  const own = WAYS.map((w, i) => [w, i]).filter(([w]) => w.decoder === decoder);
  options(byId("way-example"), own.map(([w, i]) => [i, `${w.group}: ${ROWS.input[w.row]}`]));
  byId("way-example").value = own.reduce((best, next) => (gain(next[0]) > gain(best[0]) ? next : best))[1];
  showChosen();
}

if (WAYS.length) {
  options(byId("way-decoder"), [...new Set(WAYS.map((w) => w.decoder))].map((name) => [name, name]));
  byId("way-decoder").addEventListener("input", showExamples);
  byId("way-example").addEventListener("input", showChosen);
  showExamples();
} else {
  byId("trajectory").replaceChildren(element("p", { class: "note" }, "There are no recorded steps to show."));
}
