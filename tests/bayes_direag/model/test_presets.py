"""The presets hold the settings they are documented with, and nothing else can be set."""

import math

import pytest

from bayes_direag.errors import DirEAGError
from bayes_direag.model.presets import PRESETS, label, parse_overrides
from bayes_direag.model.settings import LEVEL_PARAMETERS, VARIANTS, RawParameter, RecalibrationSettings
from tests.bayes_direag.family import VOTING

#: Those of the paper, and of the family around it.
PARAMETERS = PRESETS["paper"].parameters("confidence")
EVERY_PARAMETER = VOTING.parameters("confidence")


def softplus(raw: float) -> float:
    return math.log1p(math.exp(raw))


class TestDocumentedSettings:
    def test_paper_starts_at_natural_values_without_bounds(self):
        paper = PRESETS["paper"]
        natural = {"weight": 1.0, "prior_strength": 0.1, "null_base": 0.01, "null_gain": 0.25, "slope": 0.5}
        for name, value in natural.items():
            assert paper.parameter(name).link == "softplus"
            assert softplus(paper.parameter(name).start) == pytest.approx(value, rel=1e-12)
        assert (paper.bias.link, paper.bias.start) == ("identity", 0)
        for name in PARAMETERS:
            raw = paper.parameter(name)
            assert (*raw.bounds, raw.loc, raw.scale, raw.fixed) == (-math.inf, math.inf, 0, None, None)

    def test_release_bounds_the_raw_parameters(self):
        bounds = {"weight": (-5, 3), "bias": (-5, 5), "slope": (-2, 2)}
        for name in PARAMETERS:
            raw, start = PRESETS["release"].parameter(name), PRESETS["paper"].parameter(name).start
            assert raw.link == ("identity" if name in ("bias", "slope") else "softplus")
            assert raw.bounds == bounds.get(name, (-8, 3))
            assert raw.start == (0.05 if name == "slope" else start)

    @pytest.mark.parametrize(("name", "null", "method"), [("paper", 1, "platt"), ("release", "balanced", "release")])
    def test_the_papers_evidence_adds_up_and_its_levels_are_independent(self, name, null, method):
        settings = PRESETS[name]
        assert (settings.eps, settings.penalty, settings.null_target_weight) == (1e-6, 0.001, null)
        assert settings.is_weighted == (name == "release")
        assert settings.recalibration == RecalibrationSettings(method=method, penalty=0.001, eps=1e-6, out_of_fold=0)
        assert settings.parameters("confidence") == PARAMETERS
        assert not any(settings.pools(one) for one in EVERY_PARAMETER)
        assert not settings.uses_agreement

    def test_bayes_has_the_prior_strength_as_its_unit(self):
        bayes = PRESETS["bayes"]
        assert (bayes.penalty, bayes.null_target_weight, bayes.eps, bayes.prior_strength.fixed) == (None, 1, 0.005, 1)
        assert [bayes.is_weighted, bayes.is_bounded] == [False] * 2

    def test_a_pooled_parameter_is_an_offset_and_what_levels_share(self):
        bayes = PRESETS["bayes"]
        assert {name for name in EVERY_PARAMETER if VOTING.pools(name)} == LEVEL_PARAMETERS
        beyond = (
            *("weight", "weight_centre", "weight_spread", "weight_agreement", "bias", "bias_centre", "bias_spread"),
            *("slope", "null_base", "null_gain", "sharpness", "vote", "vote_centre", "vote_spread", "vote_agreement"),
        )
        assert bayes.free_parameters("confidence") == beyond
        assert VOTING.free_parameters("confidence") == (*beyond, "vote_slope")
        count = (
            *("weight", "weight_centre", "weight_spread", "weight_agreement", "null_base"),
            *("sharpness", "vote", "vote_centre", "vote_spread", "vote_agreement"),
        )
        assert bayes.free_parameters("count") == VOTING.free_parameters("count") == count
        offset, centre, spread = (bayes.parameter(name) for name in ("weight", "weight_centre", "weight_spread"))
        assert (offset.link, offset.start, offset.loc, offset.scale) == ("exp", 0, 0, 1)
        assert (centre.link, centre.start, centre.loc, centre.scale) == ("identity", 2, 2, 1.5)
        assert spread == bayes.weight_spread
        assert bayes.parameter("slope") == bayes.slope

    def test_variants_differ_in_their_parameters(self):
        assert VARIANTS == ("count", "level", "confidence")
        paper, bayes = PRESETS["paper"], PRESETS["bayes"]
        assert PARAMETERS == ("weight", "bias", "slope", "prior_strength", "null_base", "null_gain")
        assert (*PARAMETERS, "sharpness", "vote", "vote_slope") == EVERY_PARAMETER
        assert paper.parameters("count") == ("weight", "prior_strength", "null_base")
        assert bayes.parameters("count") == (*paper.parameters("count"), "sharpness", "vote")
        assert set(EVERY_PARAMETER) - set(VOTING.parameters("level")) == {"slope", "vote_slope"}
        assert set(PARAMETERS) - set(paper.parameters("level")) == {"slope"}
        assert paper.free_parameters("count") == paper.parameters("count")


class TestValues:
    def test_the_label_tells_what_is_not_as_the_name_says(self):
        paper = PRESETS["paper"]
        assert label(paper) == "paper"
        assert label(paper.override(eps=0.01, weight={"start": 0.0})) == "paper with weight.start=0.0, eps=0.01"
        assert label(paper.override(eps=0.01).override(eps=1e-6)) == "paper"
        assert label(paper.override(name="own", eps=0.01)) == "own"
        fixed = {"link": "identity", "start": 0.0, "fixed": 0.2}
        assert "vote_slope.fixed=0.2" in label(PRESETS["bayes"].override(vote_slope=fixed))

    def test_what_is_left_out_is_named(self):
        assert label(PRESETS["bayes"].override(vote=None, vote_spread=None)) == "bayes with vote=None, vote_spread=None"


class TestOverride:
    def test_nested_and_plain(self):
        changed = PRESETS["paper"].override(eps=0.005, weight={"start": 0.0, "low": -1.0}, penalty=0.01)
        assert (changed.eps, changed.penalty) == (0.005, 0.01)
        assert (changed.weight.start, changed.weight.low, changed.weight.link) == (0, -1, "softplus")
        same = {"bias", "slope", "prior_strength", "null_base", "null_gain", "recalibration", "name"}
        assert all(getattr(changed, name) == getattr(PRESETS["paper"], name) for name in same)
        assert PRESETS["paper"].eps == 1e-6

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            (
                {"epps": 0.1},
                r"preset paper: there is no setting 'epps'; expected one of name, weight, .*, eps, penalty",
            ),
            ({"weight": {"strat": 1}}, r"no setting 'weight\.strat'; expected one of link, start, low, high, loc"),
            ({"recalibration": {"bins": 1}}, r"no setting 'recalibration\.bins'; expected one of method"),
            ({"eps": 0}, r"preset paper: eps: .* greater than 0; saw 0"),
            ({"weight": {"loc": math.inf}}, r"weight\.loc: .* finite"),
            ({"weight": {"link": "log"}}, r"weight\.link: .*'identity', 'softplus' or 'exp'; saw 'log'"),
            ({"weight": 1}, r"weight: .*; saw 1"),
            ({"weight": {"low": 1.0}}, r"weight: start 0\.54.* lies outside the bounds \[1\.0, inf\]"),
            ({"null_gain": {"fixed": -1}}, r"null_gain cannot be fixed at -1"),
            ({"weight": {"fixed": 1}}, r"preset paper: .* weight has a value for each level, so it cannot be fixed"),
            ({"vote_spread": {"link": "exp", "start": 0}}, r"there is vote_spread without vote; give both, or neither"),
            ({"sharpness": {"link": "exp", "start": 0, "fixed": 0}}, r"sharpness cannot be fixed at 0.*: .* positive"),
            ({"vote": {"link": "identity", "start": 0, "fixed": 0}}, r"vote has a value for each level, so it cannot"),
            ({"prior_strength": {"fixed": 0}}, r"prior_strength cannot be fixed at 0"),
            ({"null_target_weight": "balance"}, r"preset paper: null_target_weight: .*'balance'"),
            ({"null_target_weight": 0}, r"null_target_weight must be positive, not 0"),
            ({"penalty": None}, r"weight has no prior: give it a scale, fix it, or give the preset a penalty"),
            ({"recalibration": {"out_of_fold": 1}}, r"recalibration: out_of_fold must be 0 .* or at least 2"),
        ],
    )
    def test_what_cannot_be(self, changes, message):
        with pytest.raises(DirEAGError, match=message) as caught:
            PRESETS["paper"].override(**changes)
        assert "\n" not in str(caught.value)

    def test_without_a_penalty_a_prior_of_its_own_or_a_fixed_value_will_do(self):
        own = {name: {"scale": 1.0} for name in PARAMETERS} | {"slope": {"fixed": 1.0}, "null_base": {"fixed": 0.0}}
        assert PRESETS["paper"].override(penalty=None, **own).free_parameters("confidence") == (
            "weight",
            "bias",
            "prior_strength",
            "null_gain",
        )

    @pytest.mark.parametrize("limits", [{"low": -5.0}, {"high": 5.0}])
    @pytest.mark.parametrize("name", sorted(LEVEL_PARAMETERS))
    def test_what_is_pooled_is_not_bounded(self, name, limits):
        message = rf"preset bayes: .* {name} is pooled over levels \({name}_spread\), so it cannot be bounded"
        with pytest.raises(DirEAGError, match=message):
            VOTING.override(**{name: limits})
        alone = VOTING.override(**{name: limits, f"{name}_spread": None})
        assert not alone.pools(name)

    @pytest.mark.parametrize("name", ["weight_spread", "bias_spread", "vote_spread", "vote_agreement"])
    def test_what_levels_share_is_not_fixed(self, name):
        with pytest.raises(DirEAGError, match=rf"preset bayes: .* {name} cannot be fixed"):
            VOTING.override(**{name: {"fixed": 0.5}})

    def test_the_terms_beyond_the_paper_can_be_left_out_and_fixed(self):
        bayes = VOTING
        additive = PRESETS["bayes"].override(sharpness=None, vote=None, vote_spread=None)
        assert additive.parameters("confidence") == PARAMETERS
        for name in ("sharpness", "vote_slope"):
            fixed = bayes.override(**{name: {"fixed": 1.5}})
            assert set(bayes.free_parameters("confidence")) - set(fixed.free_parameters("confidence")) == {name}
            assert name in fixed.parameters("confidence")

    def test_bounded_is_a_preset_with_a_free_parameter_that_is(self):
        assert PRESETS["release"].is_bounded
        assert not any(PRESETS[name].is_bounded for name in ("paper", "bayes"))
        assert PRESETS["bayes"].override(bias_spread={"high": 1.0}).is_bounded
        assert PRESETS["bayes"].override(slope={"low": -5.0}).is_bounded
        assert not PRESETS["bayes"].override(prior_strength={"low": -5.0}).is_bounded

    def test_without_a_penalty_a_spread_needs_a_prior_of_its_own(self):
        with pytest.raises(DirEAGError, match="bias_spread has no prior"):
            PRESETS["bayes"].override(bias_spread={"scale": None})
        one = PRESETS["paper"].override(bias_spread={"link": "exp", "start": 0.0})
        assert (one.pools("bias"), one.pools("weight")) == (True, False)

    def test_a_start_on_a_bound_is_within(self):
        assert RawParameter(link="identity", start=1.0, low=1.0, high=1.0).bounds == (1, 1)


class TestParseOverrides:
    @pytest.mark.parametrize(
        ("texts", "changes"),
        [
            ([], {}),
            (["eps=0.01"], {"eps": 0.01}),
            (["weight.start=0", "weight.low=-1"], {"weight": {"start": 0, "low": -1}}),
            (["penalty=null"], {"penalty": None}),
            (["eps=0.01", "eps=0.02"], {"eps": 0.02}),
            (['weight={"scale": 2}', "weight.loc=1"], {"weight": {"scale": 2, "loc": 1}}),
            (["name=a=b"], {"name": "a=b"}),
        ],
    )
    def test_texts(self, texts, changes):
        assert parse_overrides(texts) == changes

    @pytest.mark.parametrize(
        ("texts", "message"),
        [
            (["eps"], r"setting 'eps': there is no '='; expected FIELD=VALUE"),
            (["eps=1", "eps.x=2"], r"setting 'eps\.x=2': eps already has a plain value"),
            (["eps=1", "eps.x.y=2"], r"setting 'eps\.x\.y=2': eps\.x already has"),
        ],
    )
    def test_texts_that_cannot_be_read(self, texts, message):
        with pytest.raises(DirEAGError, match=message):
            parse_overrides(texts)

    def test_an_empty_field_is_an_unknown_one(self):
        with pytest.raises(DirEAGError, match="there is no setting ''"):
            PRESETS["paper"].override(**parse_overrides(["=1"]))
