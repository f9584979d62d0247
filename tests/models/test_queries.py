"""The head with label queries: reference values, a second implementation, and what must not change it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from spml.common.errors import InputError
from spml.losses import mime_loss, smile_image_loss
from spml.models import QuerySettings, Top
from spml.models.heads import ClassWiseLinear, QueryHead, sine_code
from tests.goldens import Case, cases
from tests.reference.smile import drawn

SMALL = QuerySettings(attention_heads=2, ffn=7)
PARTS = {"self_attn": "attention", "multihead_attn": "attention", "linear1": "widen", "linear2": "narrow"}
NORMS = {"encoder": ("norm1", "norm2"), "decoder": ("norm2", "norm3")}


def make_head(settings: QuerySettings = SMALL, features: int = 6, classes: int = 3) -> QueryHead:
    torch.manual_seed(0)
    head = QueryHead(features, classes, settings).double()
    with torch.no_grad():
        for parameter in head.parameters():
            parameter += 0.1 * torch.randn_like(parameter)  # biases and norms are not at their start
    return head.eval()


def maps_of(rows: int = 5, features: int = 6, seed: int = 1) -> Tensor:
    return torch.randn(
        rows, features, 2, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )


# -- reference values ------------------------------------------------------------------------------------


def released_head(inputs: dict[str, Any], prefix: str) -> QueryHead:
    """The head with the weights that are stored under the names of the released code."""
    weights = {
        name.removeprefix(prefix): torch.from_numpy(value)
        for name, value in inputs.items()
        if name.startswith(prefix)
    }
    state = {"queries": weights["query_embed.weight"]}
    for name, value in weights.items():
        path = name.split(".")
        if path[:2] == ["encoder", "decoder"] and path[2] == "norm":
            state[f"norm.{path[3]}"] = value
        elif path[0] == "encoder":
            side, index, part = path[1], path[3], path[4]
            norms = dict(zip(NORMS[side], ("after_attention", "after_ffn"), strict=True))
            state[".".join([side, index, (PARTS | norms)[part], *path[5:]])] = value
    classes, width = state["queries"].shape
    ffn, elements = len(state["encoder.0.widen.bias"]), len(weights.get("proj.2.bias", ()))
    state |= {"last.weight": weights["fc.W"][0], "last.bias": weights["fc.b"][0]}
    posterior = "d_encoder_alpha.W" in weights
    for name in ("alpha", "beta") if posterior else ():
        for part, own in (("W", "weight"), ("b", "bias")):
            state[f"{name}.{own}"] = weights[f"d_encoder_{name}.{part}"][0]
    # The network of two layers after the class vectors: the code of MIME and SMILE, or LAC's embedding.
    has_code = posterior or weights["fc.W"].shape[2] * 2 == elements
    code, embedding = (elements // 2, 0) if has_code else (0, elements)
    part = "code" if has_code else "embed"
    state |= {name.replace("proj", part): value for name, value in weights.items() if name[:5] == "proj."}
    settings = QuerySettings(ffn=ffn, code=code, embedding=embedding, posterior=posterior)
    head = QueryHead(width, classes, settings).double().eval()
    head.load_state_dict(state)
    return head


def code_of_record(case: Case) -> Callable[..., Tensor]:
    """In place of `sine_code`: the stored position code, which is float32."""
    return lambda *sizes: case.tensor("pos")[0].flatten(1).T


def network(case: Case, prefix: str) -> nn.Sequential:
    """The network of two layers after the class vectors."""
    layers = nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 1))
    for index in (0, 2):
        for part in ("weight", "bias"):
            setattr(layers[index], part, nn.Parameter(case.tensor(f"{prefix}proj.{index}.{part}")))
    return layers


def compare(actual: Tensor, expected: Any, tolerance: float = 1e-6) -> None:
    error = np.abs(actual.detach().numpy() - expected).max()
    assert error <= tolerance * np.abs(expected).max()


def records(shared: Path, name: str) -> list[tuple[Case, dict[str, Any]]]:
    """Cases of a name, one for each input, with the arrays that the released code returned."""
    folder = shared / "goldens" / "networks"
    with np.load(folder / "released.npz") as stored:
        return [
            (case, {key: stored[path] for key, path in case.record["outputs"].items()})
            for case in cases(folder, "released")
            if case.name == name
        ]


@pytest.mark.shared
@pytest.mark.parametrize(
    "wrt",
    ["src", "net.query_embed.weight", "net.proj.0.weight", "net.encoder.decoder.layers.1.linear1.weight"],
)
def test_the_network_of_lac(shared: Path, wrt: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = records(shared, f"lac_net@{wrt}")
    assert len(found) == 2
    for case, outputs in found:
        head = released_head(case.inputs, "net.")
        assert head.embed is not None
        source = case.tensor("src").requires_grad_()
        # With a code of our own: the same to what float32 holds.
        compare(head(source)[0], outputs["logits"], 2e-6)
        monkeypatch.setattr("spml.models.heads.sine_code", code_of_record(case))
        logits, _, _, embeddings = head.train()(source)
        compare(logits, outputs["logits"])
        compare(embeddings, outputs["feats"])
        loss = (case.tensor("w_logits") * logits).sum() + (case.tensor("w_feats") * embeddings).sum()
        assert loss.item() == pytest.approx(case.record["loss"], rel=1e-6)
        variable = {
            "src": source,
            "net.query_embed.weight": head.queries,
            "net.proj.0.weight": head.embed.get_parameter("0.weight"),
            "net.encoder.decoder.layers.1.linear1.weight": head.get_parameter("decoder.1.widen.weight"),
        }[wrt]
        compare(torch.autograd.grad(loss, variable)[0], case.gradient)
        monkeypatch.undo()


@pytest.mark.shared
@pytest.mark.parametrize("wrt", ["gl_x", "gl.W", "gl.b"])
def test_the_linear_layer_of_lac(shared: Path, wrt: str) -> None:
    found = records(shared, f"lac_groupwise_linear@{wrt}")
    assert len(found) == 2
    for case, outputs in found:
        layer = ClassWiseLinear(*reversed(case.inputs["gl.W"].shape[1:])).double()
        layer.load_state_dict({"weight": case.tensor("gl.W")[0], "bias": case.tensor("gl.b")[0]})
        vectors = case.tensor("gl_x").requires_grad_()
        logits = layer(vectors)
        compare(logits, outputs["out"])
        loss = (case.tensor("w_logits") * logits).sum()
        assert loss.item() == pytest.approx(case.record["loss"], rel=1e-6)
        variable = {"gl_x": vectors, "gl.W": layer.weight, "gl.b": layer.bias}[wrt]
        compare(torch.autograd.grad(loss, variable)[0], case.gradient.reshape(variable.shape))


@pytest.mark.shared
def test_the_position_code(shared: Path) -> None:
    folder = shared / "goldens" / "networks"
    stored = json.loads((folder / "discrete.json").read_text())
    found = {name: record for name, record in stored.items() if name.startswith("sine_position")}
    assert len(found) == 2
    with np.load(folder / "discrete.npz") as arrays:
        for record in found.values():
            hp, expected = record["hp"], arrays[record["outputs"]["pos"]][0]
            code = sine_code(hp["maxH"], hp["maxW"], 2 * hp["num_pos_feats"])
            compare(code.T.reshape(expected.shape), expected)


@pytest.mark.shared
@pytest.mark.parametrize("wrt", ["src", "net.query_embed.weight", "net.proj.2.weight", "net.fc.W"])
def test_the_network_of_mime(shared: Path, wrt: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean of its 10 draws is one draw with a deviation of 1 / sqrt(10)."""
    found = records(shared, f"mime_net@{wrt}")
    assert len(found) == 2
    for case, outputs in found:
        head = released_head(case.inputs, "net.").train()
        assert head.code is not None
        source, drawn = case.tensor("src").requires_grad_(), math.sqrt(10) * case.tensor("eps").mean(0)
        monkeypatch.setattr(torch, "randn_like", lambda _, drawn=drawn: drawn)
        monkeypatch.setattr("spml.models.heads.sine_code", code_of_record(case))
        logits, latent, _, _ = head(source)
        assert latent is not None
        for name, value in (("mu", latent[0]), ("std", latent[1]), ("logits", logits)):
            compare(value, outputs[name])
        loss = mime_loss(logits, case.tensor("obs"), *latent, beta=1e-4, eps=1e-5)
        assert loss.item() == pytest.approx(case.record["loss"], rel=1e-6)
        variable = {
            "src": source,
            "net.query_embed.weight": head.queries,
            "net.proj.2.weight": head.code.get_parameter("2.weight"),
            "net.fc.W": head.last.weight,
        }[wrt]
        compare(torch.autograd.grad(loss, variable)[0], case.gradient.reshape(variable.shape))


@pytest.mark.shared
@pytest.mark.parametrize("wrt", ["src", "snet.fc.W", "snet.d_encoder_alpha.W", "snet.d_encoder_beta.b"])
def test_the_network_of_smile(shared: Path, wrt: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = records(shared, f"smile_img_net@{wrt}")
    assert len(found) == 2
    for case, outputs in found:
        head = released_head(case.inputs, "snet.").train()
        assert head.alpha is not None
        assert head.beta is not None
        source = case.tensor("src").requires_grad_()
        monkeypatch.setattr("spml.models.heads.sine_code", code_of_record(case))
        with drawn(case.tensor("s_sample")):
            logits, latent, posterior, _ = head(source)
        assert latent is not None
        assert posterior is not None
        for name, value in zip(outputs, (posterior[0], posterior[1], logits, *latent), strict=True):
            compare(value, outputs[name])
        loss = smile_image_loss(logits, case.tensor("obs"), posterior[2], *latent, *posterior[:2])
        assert loss.item() == pytest.approx(case.record["loss"], rel=1e-6)
        variable = {
            "src": source,
            "snet.fc.W": head.last.weight,
            "snet.d_encoder_alpha.W": head.alpha.weight,
            "snet.d_encoder_beta.b": head.beta.bias,
        }[wrt]
        compare(torch.autograd.grad(loss, variable)[0], case.gradient.reshape(variable.shape))


# -- a second implementation -----------------------------------------------------------------------------


def normalised(values: Any, layer: nn.Module) -> Any:
    weight, bias = (layer.get_parameter(name).detach().numpy() for name in ("weight", "bias"))
    centred = values - values.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * weight + bias


def attended(query: Any, key: Any, value: Any, attention: nn.Module, heads: int) -> Any:
    """Attention of rows (n, W) to rows (T, W), head by head."""
    weight, bias, last, offset = (
        attention.get_parameter(name).detach().numpy()
        for name in ("in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias")
    )
    inputs = zip((query, key, value), np.split(weight, 3), np.split(bias, 3), strict=True)
    parts = [np.split(rows @ matrix.T + shift, heads, 1) for rows, matrix, shift in inputs]
    results = []
    for q, k, v in zip(*parts, strict=True):
        weights = np.exp(q @ k.T / math.sqrt(q.shape[1]))
        results.append(weights / weights.sum(1, keepdims=True) @ v)
    return np.concatenate(results, 1) @ last.T + offset


def layer_of(layer: nn.Module, start: Any, query: Any, key: Any, value: Any, heads: int) -> Any:
    attention = layer.get_submodule("attention")
    middle = normalised(
        start + attended(query, key, value, attention, heads), layer.get_submodule("after_attention")
    )
    matrices = [
        [layer.get_parameter(f"{part}.{name}").detach().numpy() for name in ("weight", "bias")]
        for part in ("widen", "narrow")
    ]
    hidden = np.maximum(middle @ matrices[0][0].T + matrices[0][1], 0)
    return normalised(middle + hidden @ matrices[1][0].T + matrices[1][1], layer.get_submodule("after_ffn"))


def code_of(height: int, width: int, channels: int) -> Any:
    code, half = np.zeros((height * width, channels)), channels // 2
    for position, channel in np.ndindex(code.shape):
        row, column = divmod(position, width)
        place, side, n = (row, height, channel) if channel < half else (column, width, channel - half)
        angle = 2 * math.pi * (place + 1) / (side + 1e-6) / 10000 ** (2 * (n // 2) / half)
        code[position, channel] = math.cos(angle) if n % 2 else math.sin(angle)
    return code


@pytest.mark.parametrize(
    "settings",
    [
        SMALL,
        QuerySettings(width=8, attention_heads=4, encoder_layers=2, decoder_layers=1, ffn=5),
        QuerySettings(attention_heads=3, encoder_layers=0, decoder_layers=3, ffn=4),
    ],
)
def test_logits_equal_those_of_a_second_implementation(settings: QuerySettings) -> None:
    head, maps, heads = make_head(settings), maps_of(), settings.attention_heads
    projection = list(head.project.parameters())
    assert len(projection) == (2 if settings.width else 0)
    logits = []
    for image in maps.numpy():
        positions = image.reshape(6, 6).T
        if projection:
            positions = positions @ projection[0].detach().numpy().T + projection[1].detach().numpy()
        queries = head.queries.detach().numpy()
        code = code_of(2, 3, queries.shape[1])
        for layer in head.encoder:
            coded = positions + code
            positions = layer_of(layer, positions, coded, coded, positions, heads)
        vectors = np.zeros_like(queries)
        for layer in head.decoder:
            vectors = layer_of(layer, vectors, vectors + queries, positions + code, positions, heads)
        weight, bias = (parameter.detach().numpy() for parameter in (head.last.weight, head.last.bias))
        logits.append((normalised(vectors, head.norm) * weight).sum(1) + bias)
    assert np.std(logits) > 0.1
    np.testing.assert_allclose(head(maps)[0].detach(), logits, rtol=1e-5, atol=1e-6)  # code in float32


@pytest.mark.parametrize(("height", "width", "channels"), [(14, 14, 2048), (3, 5, 6), (1, 1, 4)])
def test_the_position_code_of_any_map(height: int, width: int, channels: int) -> None:
    code = sine_code(height, width, channels)
    assert code.dtype == torch.float32
    np.testing.assert_allclose(code, code_of(height, width, channels), atol=2e-6)


# -- what must not change it -----------------------------------------------------------------------------


def test_classes_are_in_the_order_of_their_queries() -> None:
    head, maps, order = make_head(classes=5), maps_of(), torch.tensor([3, 0, 4, 1, 2])
    before, vectors = head(maps)[0], head.class_vectors(maps)
    with torch.no_grad():
        for parameter in (head.queries, head.last.weight, head.last.bias):
            parameter.copy_(parameter[order].clone())
    torch.testing.assert_close(head(maps)[0], before[:, order])
    torch.testing.assert_close(head.class_vectors(maps), vectors[:, order])
    assert (before - before[:, order]).abs().min() > 1e-3


def test_only_the_code_tells_positions_apart() -> None:
    head, order = make_head(), torch.tensor([5, 2, 0, 1, 4, 3])
    positions, code = torch.randn(4, 6, 6).double(), torch.randn(6, 6).double()
    expected = head.decode(positions, code)
    torch.testing.assert_close(head.decode(positions[:, order], code[order]), expected)
    assert (head.decode(positions[:, order], code) - expected).abs().max() > 1e-2


def test_evaluation_repeats_itself_and_training_drops() -> None:
    top, maps = Top(6, 3, head="queries", queries=SMALL, dropout=0.5), maps_of().float()
    assert torch.equal(top.eval()(maps).logits, top(maps).logits)
    torch.manual_seed(0)
    assert not torch.equal(top.train()(maps).logits, top(maps).logits)
    assert isinstance(top.dropout, nn.Identity)  # nothing is dropped in front of the head
    shapes: list[torch.Size] = []
    for part in top.modules():
        if isinstance(part, nn.Dropout):
            assert part.p == 0.5
            part.register_forward_hook(lambda _, __, output: shapes.append(output.shape))
    top(maps)
    # Of each layer the result of attention, the hidden units, and the result of the two-layer network.
    of_layer = [[(5, rows, 6), (5, rows, 7), (5, rows, 6)] for rows in (6, 3, 3)]
    assert shapes == [shape for layer in of_layer for shape in layer]
    attentions = [part for part in top.modules() if isinstance(part, nn.MultiheadAttention)]
    assert [attention.dropout for attention in attentions] == [0.5] * 3


def test_class_maps_are_the_logits_of_maps_of_one_position() -> None:
    top, maps = Top(6, 3, head="queries", queries=SMALL, dropout=0.5), maps_of(60).float()
    assert maps[:, 0].numel() > 256  # more than are computed at a time
    class_maps = top.eval().class_maps(maps)
    assert class_maps.shape == (60, 3, 2, 3)
    for y, x in np.ndindex(2, 3):
        expected = top(maps[:, :, y : y + 1, x : x + 1]).logits.detach()
        torch.testing.assert_close(class_maps[:, :, y, x], expected)


# -- codes and embeddings of classes ---------------------------------------------------------------------


CODED = QuerySettings(attention_heads=2, ffn=7, code=5)


def test_evaluation_takes_the_mean_code() -> None:
    head, maps = make_head(CODED), maps_of()
    logits, latent, posterior, embeddings = head(maps)
    assert head.code is not None
    assert latent is not None
    assert posterior is embeddings is None
    mean, raw = head.code(head.class_vectors(maps)).chunk(2, -1)
    torch.testing.assert_close(latent, (mean, (raw / 2).exp()))
    assert latent[0].shape == (5, 3, 5)
    torch.testing.assert_close(logits, (mean * head.last.weight).sum(-1) + head.last.bias)


@pytest.mark.parametrize("training", [True, False])
def test_ten_draws_have_a_tenth_of_the_variance(training: bool) -> None:
    head = make_head(QuerySettings(attention_heads=2, ffn=7, code=5, codes_in_evaluation=10)).train(training)
    rows = maps_of(1).expand(4000, -1, -1, -1)
    with torch.no_grad():
        logits, latent, _, _ = head(rows)
    assert latent is not None
    variance = ((latent[1][0] * head.last.weight) ** 2).sum(-1) / 10
    np.testing.assert_allclose(logits.var(0), variance.detach(), rtol=0.1)
    center = (latent[0][0] * head.last.weight).sum(-1) + head.last.bias
    assert ((logits.mean(0) - center).abs() < 4 * (variance / 4000).sqrt()).all()


def test_without_deviation_training_equals_evaluation() -> None:
    head, maps = make_head(CODED), maps_of()
    assert head.code is not None
    with torch.no_grad():
        head.code[2].bias[5:] = -1e3  # beyond the clamp: a deviation of exp(-6)
        expected = head(maps)[0]
        torch.testing.assert_close(head.train()(maps)[0], expected, atol=0.02, rtol=0)
        head.code[2].bias[5:] = 4
        assert (head.train()(maps)[0] - expected).abs().max() > 0.1


def test_class_maps_are_of_the_mean_code() -> None:
    top, maps = Top(6, 3, head="queries", queries=CODED), maps_of(2).float()
    expected = top.eval()(maps[:, :, :1, :1]).logits.detach()
    torch.testing.assert_close(top.train().class_maps(maps)[:, :, 0, 0], expected)


SOFT = QuerySettings(attention_heads=2, ffn=7, code=5, posterior=True)


def test_distributions_of_labels_leave_the_logits_and_the_code_as_they_are() -> None:
    head, plain, maps = make_head(SOFT), make_head(), maps_of()
    assert plain.load_state_dict(head.state_dict(), strict=False).missing_keys == []
    logits, latent, posterior, _ = head(maps)
    assert torch.equal(logits, plain(maps)[0])
    assert torch.equal(head.train()(maps)[0], logits)
    assert head.code is not None
    assert latent is not None
    assert posterior is not None
    vectors = head.class_vectors(maps)
    mean, raw = head.code(vectors).chunk(2, -1)
    torch.testing.assert_close(latent, (mean, (1 + raw.exp()).log()))
    for name, value in zip(("alpha", "beta"), posterior, strict=False):
        weight, bias = (head.get_parameter(f"{name}.{part}") for part in ("weight", "bias"))
        raw = torch.einsum("bcw,cw->bc", vectors, weight) + bias
        torch.testing.assert_close(value, (1 + raw.exp()).log() + 1e-6)
    torch.testing.assert_close(posterior[2], posterior[0] / (posterior[0] + posterior[1]))
    top = Top(6, 3, head="queries", queries=SOFT)
    class_maps = top.train().class_maps(maps[:, :, :1, :1].float())[:, :, 0, 0]
    torch.testing.assert_close(class_maps, top(maps[:, :, :1, :1].float()).logits.detach())


def test_labels_are_drawn_in_training_from_their_distributions() -> None:
    head = make_head(SOFT).train()
    with torch.no_grad():
        posterior = head(maps_of(1).expand(4000, -1, -1, -1)).posterior
    assert posterior is not None
    alpha, beta, labels = posterior
    mean = (alpha / (alpha + beta))[0]
    variance = mean * (1 - mean) / (alpha + beta + 1)[0]
    assert ((labels.mean(0) - mean).abs() < 4 * (variance / 4000).sqrt()).all()
    np.testing.assert_allclose(labels.var(0), variance, rtol=0.1)


def test_the_least_deviation_and_parameters_have_a_finite_loss() -> None:
    head = make_head(SOFT).train()
    assert head.code is not None
    with torch.no_grad():
        for bias in (head.code[2].bias, head.get_parameter("alpha.bias"), head.get_parameter("beta.bias")):
            bias.fill_(-1000)
    logits, latent, posterior, _ = head(maps_of())
    assert latent is not None
    assert posterior is not None
    assert {part.min().item() for part in (latent[1], *posterior[:2])} == {1e-6}
    target = torch.zeros(5, dtype=torch.int64)
    smile_image_loss(logits, target, posterior[2], *latent, *posterior[:2]).backward()
    assert all(parameter.grad.isfinite().all() for parameter in head.parameters())  # type: ignore[union-attr]


def test_embeddings_have_length_1_and_are_made_in_training() -> None:
    settings = QuerySettings(attention_heads=2, ffn=7, embedding=4)
    top, maps = Top(6, 3, head="queries", queries=settings), maps_of().float()
    assert top.eval()(maps).embeddings == ()
    (embeddings,) = top.train()(maps).embeddings
    assert embeddings.shape == (5, 3, 4)
    torch.testing.assert_close(embeddings.norm(dim=-1), torch.ones(5, 3))


def test_a_head_is_given_new_embeddings_only_if_it_needs_others() -> None:
    head, maps = make_head(), maps_of()
    expected = head(maps)[0]
    head.set_embedding(4)
    first = head.embed
    head.set_embedding(4)
    assert head.embed is first is not None
    assert head.settings.embedding == 4
    head.set_embedding(0)
    assert head.embed is None
    assert torch.equal(head(maps)[0], expected)


# -- start and size --------------------------------------------------------------------------------------


def test_parameters_start_as_those_of_the_released_code() -> None:
    torch.manual_seed(0)
    head = QueryHead(64, 200, QuerySettings(ffn=256))
    bounds = {  # of uniform draws: sqrt(6 / (rows + columns)) for Xavier
        "attention.in_proj_weight": math.sqrt(6 / (4 * 64)),
        "attention.out_proj.weight": math.sqrt(6 / (2 * 64)),
        "widen.weight": math.sqrt(6 / (64 + 256)),
        "narrow.weight": math.sqrt(6 / (64 + 256)),
        "widen.bias": 1 / math.sqrt(64),
        "narrow.bias": 1 / math.sqrt(256),
    }
    for layer in (*head.encoder, *head.decoder):
        for name, bound in bounds.items():
            values = layer.get_parameter(name)
            assert 0.9 * bound < values.abs().max() <= bound
        for name in ("attention.in_proj_bias", "attention.out_proj.bias"):
            assert not layer.get_parameter(name).any()
    assert head.last.weight.abs().max().item() == pytest.approx(1 / 8, rel=1e-3)
    assert head.last.bias.abs().max().item() == pytest.approx(1 / 8, rel=0.05)
    assert head.queries.std().item() == pytest.approx(1, rel=0.03)
    assert head.queries.abs().max() > 3


def test_the_size_of_the_published_network() -> None:
    with torch.device("meta"):
        plain = QueryHead(2048, 20, QuerySettings(ffn=8192))
        mime = QueryHead(2048, 20, QuerySettings(ffn=8192, code=256))
    sizes = [sum(each.numel() for each in part.parameters()) for part in (plain, *plain.encoder, mime)]
    assert sizes[:2] == [151_160_852, 50_358_272]
    assert round(sizes[2] / 1e6, 1) == 156.4


@pytest.mark.parametrize(
    ("features", "settings", "message"),
    [
        (6, QuerySettings(),
         "multiple of its 4 attention heads, got 6, that of the feature map: change model.width"),
        (64, QuerySettings(width=10),
         "multiple of its 4 attention heads, got 10: change model.width or model.attention"),
        (5, QuerySettings(attention_heads=1), "needs an even width"),
    ],
)  # fmt: skip
def test_a_width_that_cannot_be_divided_is_refused(
    features: int, settings: QuerySettings, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        QueryHead(features, 2, settings)
