"""`padded-graph`: labelled undirected networkx graphs of bounded size, as a structured output space."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Annotated, Any, ClassVar, cast

import networkx as nx
from pydantic import Field, field_validator

from ele_core import Drawing, InvalidOutput
from ele_graphs.graphs.batch import Graphs, from_lists, to_lists
from ele_graphs.graphs.space import MAX_LABELS, MAX_NODES, GraphShow, GraphSpace, Label

Labels = Annotated[tuple[Label, ...], Field(min_length=1, max_length=MAX_LABELS)]


class PaddedGraphShow(GraphShow[Any]):
    """Graphs as pictures with labels."""

    space: PaddedGraphSpace

    def render(
        self, obj: nx.Graph[Any], against: nx.Graph[Any] | None = None
    ) -> Drawing:  # nodes have no common names to mark differences by
        """The text of `format`, and an SVG picture with labels."""
        labels, edges = to_lists(self.space.pack([obj]))[0]
        names = [str(self.space.node_labels[code - 1]) for code in labels]
        lines = [
            (i, j, str(self.space.edge_labels[s - 1]) if len(self.space.edge_labels) > 1 else "") for i, j, s in edges
        ]
        return Drawing(self.space.format(obj), draw_graph(names, lines, self.space.colours))

    def describe(self) -> str:
        """The numbers of labels and the size."""
        nodes, edges = len(self.space.node_labels), len(self.space.edge_labels)
        return f"graphs of at most {self.space.max_nodes} nodes; different labels: {nodes} of nodes, {edges} of edges"


class PaddedGraphSpace(GraphSpace["nx.Graph[Any]"]):
    """Undirected `networkx.Graph`s whose nodes and edges have an attribute `label` (a subclass can rename it).

    If there is only one label, a missing attribute stands for it: unlabelled graphs need no labels.
    As text a graph is compact JSON: `{"nodes": ["a", "b"], "edges": [[0, 1, "x"]]}`.
    """

    class Config(GraphSpace.Config):
        """Labels and size; `infer` finds them in data."""

        node_labels: Labels = ("node",)
        """The labels a node can have."""
        edge_labels: Labels = ("edge",)
        """The labels an edge can have; "no edge" is not one of them."""
        max_nodes: int = Field(default=9, ge=1, le=MAX_NODES)
        """The largest number of nodes of a graph; smaller graphs are padded with virtual nodes."""

        @field_validator("node_labels", "edge_labels")
        @classmethod
        def _distinct(cls, labels: tuple[Label, ...]) -> tuple[Label, ...]:
            if len(set(labels)) < len(labels):
                raise ValueError("a label is listed twice")
            return labels

    config: Config

    Show = PaddedGraphShow
    takes = "an undirected networkx.Graph"

    node_attribute: ClassVar[str] = "label"
    """The networkx attribute that holds a node's label."""
    edge_attribute: ClassVar[str] = "label"
    """The networkx attribute that holds an edge's label."""

    @property
    def node_labels(self) -> Sequence[Label]:
        return self.config.node_labels

    @property
    def edge_labels(self) -> Sequence[Label]:
        return self.config.edge_labels

    @property
    def max_nodes(self) -> int:
        return self.config.max_nodes

    def pack(self, objects: Sequence[nx.Graph[Any]]) -> Graphs:
        """Graphs → nodes (B, m), edges (B, m, m); nodes keep the order of iteration, their names are not kept."""
        node_codes = {label: code for code, label in enumerate(self.node_labels, 1)}
        edge_codes = {label: code for code, label in enumerate(self.edge_labels, 1)}
        labels, edges = [], []
        for index, graph in enumerate(objects):
            self._check(graph, index)
            position = {node: i for i, node in enumerate(graph)}
            nodes = self._labelled_nodes(graph)
            labels.append([self._code(node_codes, value, "node", node, index) for node, value in nodes])
            edges.append(
                [
                    (position[a], position[b], self._code(edge_codes, value, "edge", (a, b), index))
                    for a, b, value in self._labelled_edges(graph)
                ]
            )
        return from_lists(labels, edges, self.max_nodes)

    def unpack(self, batch: Graphs) -> list[nx.Graph[Any]]:
        """Graphs with nodes 0…n−1; virtual nodes are omitted."""
        return [self._decoded(labels, edges) for labels, edges in to_lists(batch)]

    @classmethod
    def parse(cls, text: str) -> nx.Graph[Any]:
        """A graph from `{"nodes": [label, …], "edges": [[i, j, label], …]}`."""
        labels, edges = read_json(text)
        return cls._graph(labels, edges)

    @classmethod
    def format(cls, obj: nx.Graph[Any]) -> str:
        """Compact JSON, nodes in the order of iteration."""
        position = {node: i for i, node in enumerate(obj)}
        labels = [label for _, label in cls._labelled_nodes(obj)]
        return write_json(labels, [(position[a], position[b], label) for a, b, label in cls._labelled_edges(obj)])

    @property
    def colours(self) -> Mapping[str, str] | None:
        """The colours in which nodes are drawn, by label; by default those of a palette."""
        return None

    @classmethod
    def _labelled_nodes(cls, graph: nx.Graph[Any]) -> list[tuple[Any, Any]]:
        return [(node, values.get(cls.node_attribute)) for node, values in graph.nodes(data=True)]

    @classmethod
    def _labelled_edges(cls, graph: nx.Graph[Any]) -> list[tuple[Any, Any, Any]]:
        return [(a, b, values.get(cls.edge_attribute)) for a, b, values in graph.edges(data=True)]

    @classmethod
    def infer(cls, objects: Sequence[nx.Graph[Any]], options: Mapping[str, Any]) -> Config:
        """Find the labels, sorted, and the largest size in `objects`; `options` take precedence."""
        nodes = {label for graph in objects for _, label in cls._labelled_nodes(graph)}
        edges = {label for graph in objects for *_, label in cls._labelled_edges(graph)}
        found = {
            "node_labels": _sorted(nodes) or ("node",),
            "edge_labels": _sorted(edges) or ("edge",),
            "max_nodes": min(max((len(graph) for graph in objects), default=1) or 1, MAX_NODES),
        }
        return cls.Config(**{**found, **options})

    def examples(self) -> list[nx.Graph[Any]]:
        """Labelled paths of one to three nodes, a star and two cycles, as far as `max_nodes` allows."""
        shapes = [nx.path_graph(n) for n in (1, 2, 3)] + [nx.star_graph(3), nx.cycle_graph(4), nx.cycle_graph(5)]
        return [self._labelled(shape, shift) for shift, shape in enumerate(shapes) if len(shape) <= self.max_nodes]

    def _labelled(self, shape: nx.Graph[Any], shift: int) -> nx.Graph[Any]:
        labels = [(shift + i) % len(self.node_labels) + 1 for i in range(len(shape))]
        edges = [(i, j, (shift + k) % len(self.edge_labels) + 1) for k, (i, j) in enumerate(shape.edges)]
        return self._decoded(labels, edges)

    def _decoded(self, labels: Iterable[int], edges: Iterable[tuple[int, int, int]]) -> nx.Graph[Any]:
        """Build the networkx graph from label codes."""
        nodes = [self.node_labels[code - 1] for code in labels]
        return self._graph(nodes, [(i, j, self.edge_labels[code - 1]) for i, j, code in edges])

    @classmethod
    def _graph(cls, labels: Iterable[Label | None], edges: Iterable[tuple[int, int, Label | None]]) -> nx.Graph[Any]:
        graph: nx.Graph[Any] = nx.Graph()
        graph.add_nodes_from((i, {cls.node_attribute: label}) for i, label in enumerate(labels))
        graph.add_edges_from((i, j, {cls.edge_attribute: label}) for i, j, label in edges)
        return graph

    def _check(self, graph: object, index: int) -> None:
        """Refuse anything but a simple undirected graph of at most `max_nodes` nodes."""
        if not isinstance(graph, nx.Graph) or graph.is_directed() or graph.is_multigraph():
            raise self.invalid(f"expected an undirected networkx.Graph, not {type(graph).__name__}", index)
        if len(graph) > self.max_nodes:
            raise self.invalid(f"{len(graph)} nodes, more than max_nodes = {self.max_nodes}", index)
        if loops := list(nx.selfloop_edges(graph)):
            raise self.invalid(f"node {loops[0][0]!r} has an edge to itself", index)

    def _code(self, codes: Mapping[Label, int], label: Any, kind: str, name: object, index: int) -> int:
        """The code of a label; a missing label stands for the only one if there is just one."""
        if label is None and len(codes) == 1:
            return 1
        try:
            return codes[label]
        except (KeyError, TypeError):
            known = " ".join(map(str, codes))
            raise self.invalid(f"{kind} {name!r} has label {label!r}, not one of: {known}", index) from None


def read_json(text: str) -> tuple[list[Label | None], list[tuple[int, int, Label | None]]]:
    """Node labels and edges (i, j, label) from a graph's JSON text. Raises `InvalidOutput`."""
    try:
        graph = json.loads(text)
        labels, edges = list(graph["nodes"]), [(int(i), int(j), label) for i, j, label in graph["edges"]]
        hash((*labels, *edges))  # a label is a word or a number, not a list
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        form = "{'nodes': [label, …], 'edges': [[i, j, label], …]}"
        raise InvalidOutput(f"not a graph of the form {form}: {text[:60]!r}") from error
    for i, j, _ in edges:
        if not (0 <= i < len(labels) and 0 <= j < len(labels)):
            has = f"nodes are numbered from 0, and the graph has {len(labels)}"
            raise InvalidOutput(f"edge {i}–{j} names a node that does not exist: {has}")
    return labels, edges


def write_json(labels: Sequence[Label | None], edges: Iterable[tuple[int, int, Label | None]]) -> str:
    """The inverse of `read_json`."""
    return json.dumps({"nodes": list(labels), "edges": [list(edge) for edge in edges]}, separators=(",", ":"))


def _sorted(labels: set[Any]) -> tuple[Label, ...]:
    """Labels in a stable order, numbers before words, without None (a missing label)."""
    return tuple(sorted(cast("set[Label]", labels - {None}), key=lambda label: (isinstance(label, str), label)))


SIZE = 200
MARGIN = 24
PALETTE = ("#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2", "#9d755d", "#eeca3b")


def draw_graph(
    labels: Sequence[str], edges: Sequence[tuple[int, int, str]], colours: Mapping[str, str] | None = None
) -> str:
    """Draw nodes as discs coloured by label, edges as lines with their label, if any, in the middle.

    `colours` gives the colours of labels; if a label has none, it is one of a palette.
    """
    places = _places(len(labels), [(i, j) for i, j, _ in edges])
    colours = {label: PALETTE[k % len(PALETTE)] for k, label in enumerate(sorted(set(labels)))} | dict(colours or {})
    parts = [_line(places[i], places[j], label) for i, j, label in edges]
    parts += [_disc(place, label, colours[label]) for place, label in zip(places, labels, strict=True)]
    box = f'xmlns="http://www.w3.org/2000/svg" width="{SIZE}" height="{SIZE}" viewBox="0 0 {SIZE} {SIZE}"'
    return f"<svg {box}>{''.join(parts)}</svg>"


def _places(count: int, edges: Sequence[tuple[int, int]]) -> list[tuple[float, float]]:
    """The position of each node: a spring layout from a fixed seed, scaled to the picture."""
    graph: nx.Graph[Any] = nx.Graph()
    graph.add_nodes_from(range(count))
    graph.add_edges_from(edges)
    spread = (SIZE - 2 * MARGIN) / 2
    layout = nx.spring_layout(graph, seed=0, scale=spread, center=(SIZE / 2, SIZE / 2))
    return [(float(layout[i][0]), float(layout[i][1])) for i in range(count)]


def _line(start: tuple[float, float], end: tuple[float, float], label: str) -> str:
    (x1, y1), (x2, y2) = start, end
    line = f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#888" stroke-width="2"/>'
    return line + (_text((x1 + x2) / 2, (y1 + y2) / 2, label, "#444") if label else "")


def _disc(place: tuple[float, float], label: str, colour: str) -> str:
    x, y = place
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="12" fill="{colour}"/>' + _text(x, y, label, "#fff")


def _text(x: float, y: float, text: str, colour: str) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="middle" dominant-baseline="central"'
    return f'<text {place} font-family="sans-serif" font-size="10" fill="{colour}">{escape(text)}</text>'
