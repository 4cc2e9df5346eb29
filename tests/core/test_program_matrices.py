import torch

from stakes.programs.modelling import ProgramMatrices, Quantity


def test_the_matrices_of_a_small_program() -> None:
    words = ProgramMatrices(
        decide={"plan": Quantity(cost="2 * outcome + 1", upper=9, square=3), "extra": Quantity(lower=None, each=False)},
        recourse={"missing": Quantity(cost="price"), "idle": Quantity(square=0.5)},
        covers={"idle": "3 * idle >= plan - outcome", "need": "rate * plan + 2 * missing >= outcome + 1"},
        limits={"top": "sum(plan) <= extra", "first": "extra = 7"},
        numbers={"rate": (1.0, 4.0), "price": 5.0},
        outcomes=2,
    )
    made = words.program()
    eye = torch.eye(2).double()
    assert made.T.tolist() == [[1, 0, 0], [0, 4, 0], [-1, 0, 0], [0, -1, 0]]  # in the order of the recourse
    assert made.W.tolist() == [2, 2, 3, 3]
    assert torch.equal(made.h_y, torch.cat([eye, -eye]))
    assert made.h is not None
    assert made.h.tolist() == [1, 1, 0, 0]
    assert made.q.tolist() == [5, 5, 0, 0]
    assert made.Q is not None
    assert made.Q.tolist() == [0, 0, 1, 1]
    expected = {
        "p": [1, 1, 0],
        "p_y": [[2, 0], [0, 2], [0, 0]],
        "P": [[6, 0, 0], [0, 6, 0], [0, 0, 0]],
        "G": [[1, 1, -1]],
        "g": [0],
        "E": [[0, 0, 1]],
        "e": [7],
        "lower": [0, 0, -torch.inf],
        "upper": [9, 9, torch.inf],
    }
    for name, values in expected.items():
        assert getattr(made, name).tolist() == values, name


def test_bounds_of_recourse_are_rows() -> None:
    quantities = {"missing": Quantity(cost=1, upper=4)}
    made = ProgramMatrices({"plan": Quantity()}, quantities, {"need": "plan + missing >= outcome"}, {}, {}, 1).program()
    assert made.W.tolist() == [[1], [-1]]
    assert made.h is not None
    assert made.h.tolist() == [0, -4]


def test_without_recourse_what_must_hold_holds_for_every_member() -> None:
    made = ProgramMatrices({"plan": Quantity(cost=1)}, {}, {"need": "plan >= outcome"}, {}, {}, 2).program()
    members = torch.tensor([[[1.0, 5.0], [3.0, 4.0]]]).double()
    torch.testing.assert_close(made.solve(members).action, torch.tensor([[3.0, 5.0]]).double(), rtol=0, atol=1e-6)


def test_where_rows_hold() -> None:
    def places(words: str, outcomes: str = "abc") -> list[str]:
        known = {"x": Quantity()}, {"z": Quantity()}, {"y": "z >= outcome - x"}
        program = ProgramMatrices(*known, {"k": words}, {}, len(outcomes))
        return [place for each in program.limit_rows() for place in each.places(list(outcomes))]

    assert places("x <= 3") == ["a", "b", "c"]
    assert places("abs(change(x)) <= 3") == ["a to b, up", "b to c, up", "a to b, down", "b to c, down"]
    assert places("sum(x) <= 3") == ["all"]
    assert places("change(change(x)) <= 3") == ["all"]
    assert places("change(change(x)) <= 3", "abcd") == ["1", "2"]
    assert places("change(x) <= 3", "ab") == ["a to b"]
    assert places("sum(x) <= 3", "ab") == ["all"]
    assert places("x <= 3", "a") == ["a"]
