from safety.package_size import single_importers, sizes

TREE = {
    "src/stakes/__init__.py": b"from stakes.costs import cost\n",
    "src/stakes/costs/cost.py": b"x = 1\ny = 2\n",
    "src/stakes/costs/ranges.py": b"from stakes.costs import cost\n",
    "src/stakes/actions/solve.py": b"def f():\n    from stakes.costs.ranges import r\n    import stakes.costs.cost\n",
    "src/stakes/cli/fit.py": b"import stakes.actions.solve\n",
    "src/stakes/py.typed": b"",
    "tests/test_cost.py": b"import stakes\n",
    "reproduction/pages/README.md": b"not counted here\n",
    "docs/costs.md": b"# Costs\n\nthree words more\n",
}


def test_importers_count_wherever_they_import_but_the_public_names_do_not() -> None:
    assert single_importers(TREE) == {
        "stakes.actions.solve": "stakes.cli.fit",
        "stakes.costs.ranges": "stakes.actions.solve",
    }


def test_sizes() -> None:
    counted = sizes(TREE)
    assert (counted["modules in the wheel"], counted["their lines"], counted["files in the wheel"]) == (5, 8, 6)
    assert (counted["lines of tests"], counted["words of docs/"], counted["words of all our pages"]) == (1, 5, 5)
