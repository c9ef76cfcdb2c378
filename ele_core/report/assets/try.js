// A page that asks a model on this machine: one input at a time, its answers, and the steps of the decoding.
const asked = { count: 0 };

// Show a busy state, an error, or what was done.
function say(text, kind = "") {
  byId("status").className = `status ${kind}`;
  byId("status").textContent = text;
}

async function ask(input) {
  const mine = ++asked.count, decoder = byId("decoder").value;
  byId("go").disabled = true;
  byId("ask").setAttribute("aria-busy", "true");
  byId("result").classList.add("stale");
  say(`Decoding with ${decoder} …`, "busy");
  try {
    const response = await fetch("answer", {
      method: "POST", headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ input, decoder, top_k: Number(byId("top-k").value) }),
    });
    const answer = await response.json();
    if (mine !== asked.count) return;
    if (answer.error) { say(answer.error, "error"); byId("result").hidden = true; return; }
    say(`${input} → ${answer.stored[answer.answers[0].drawing].text} · ${decoder}, ${number(answer.seconds, 2)} s`);
    show(answer);
  } catch {
    if (mine === asked.count) say("ele try has ended: start it again in the terminal, and open the address that it prints.", "error");
  } finally {
    if (mine === asked.count) {
      byId("go").disabled = false;
      byId("ask").removeAttribute("aria-busy");
      byId("result").classList.remove("stale");
    }
  }
}

function show(answer) {
  byId("result").hidden = false;
  const shown = [...answer.answers.map((each) => each.drawing), answer.goal].map((i) => answer.stored[i]);
  const cards = answer.answers.map((each, i) => card(`${i + 1}`, shown[i], each.right, Object.entries(each.values), shown));
  if (answer.known) cards.push(card("truth", shown.at(-1), null, [], shown));
  byId("answers").replaceChildren(...cards);
  byId("way-goal").textContent = answer.known ? "truth" : "best answer";
  const followed = answer.steps.length > 0;
  byId("trajectory").hidden = !followed;
  byId("no-steps").hidden = followed;
  if (followed) showWay({ ...answer, about: [], facts: (i) => [["energy", number(answer.energies[i])]] }, answer.steps.length - 1);
}

// One answer: its rank, its drawing, and one number per column (energy, and others if predictions have them).
function card(rank, plain, right, values, beside) {
  const chip = right == null ? null : element("span", { class: `chip ${right ? "yes" : "no"}` }, right ? "✓ truth" : "✗ not the truth");
  return element("li", { class: `example${rank === "truth" ? " truth" : ""}` },
    element("header", {}, element("div", { class: "meta" }, element("b", { class: "rank" }, rank), values.map(([name, value]) => element("span", {}, `${name} ${number(value)}`)), chip)),
    element("div", { class: "pane large" }, drawing(plain, { beside })));
}

byId("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  const input = byId("input").value;
  if (input.trim()) ask(input); else say("Type an input first.", "error");
});
options(byId("decoder"), DATA.decoders.map((name) => [name, name]), DATA.decoder);
byId("decoder").addEventListener("input", () => { if (byId("input").value.trim() && !byId("result").hidden) ask(byId("input").value); });
byId("examples").append(...(DATA.examples.length ? [element("span", { class: "faint" }, "Held out from training:")] : []), ...DATA.examples.map((example) => {
  const button = element("button", { type: "button", class: "quiet" }, example.input.length > 80 ? `${example.input.slice(0, 80)}…` : example.input);
  button.addEventListener("click", () => { byId("input").value = example.input; ask(example.input); });
  return button;
}));
