import pytest

from reproduction.plan import BASES, CHOICES, METHODS, SCORE_CHOICES, ScoreChoice, score_choice


def test_every_base_with_every_method_is_a_choice() -> None:
    assert len(SCORE_CHOICES) == len(BASES) * len(METHODS)
    assert SCORE_CHOICES.items() <= CHOICES.items()
    assert score_choice("main") is None
    for name in SCORE_CHOICES:
        choice = score_choice(name)
        assert choice is not None
        assert choice.name == name


@pytest.mark.parametrize(
    ("choice", "name", "title", "settings"),
    [
        (ScoreChoice("pointwise"), "pointwise", "point by point + decision", {"training.score": "pointwise"}),
        (
            ScoreChoice("energy_linear", "many"),
            "energy_linear_many",
            "energy score, linear start + decision, 64 members",
            {"model.linear": True, "training.weight_decay": 0.1, "training.decision_member_count": 64},
        ),
        (
            ScoreChoice("energy", "total"),
            "energy_total",
            "energy score + CRPS of the total, a rival",
            {"training.companion": "crps_of_total"},
        ),
    ],
)
def test_a_choice_in_words_and_settings(
    choice: ScoreChoice, name: str, title: str, settings: dict[str, object]
) -> None:
    assert (choice.name, choice.title) == (name, title)
    everywhere = ScoreChoice("energy").settings
    assert everywhere["training.members"] == 20
    assert choice.settings == everywhere | settings
