"""A program in a file, as users write it."""

BAKERY = """\
# hours of work for two products
unit = "EUR"
action_unit = "h"

[decide.hours]
cost = 2
upper = 6

[recourse]
missing = {cost = "margin"}

[recourse_constraints]
demand = "rate * hours + missing >= outcome"

[limits]
staff = "sum(hours) <= staff"

[numbers]
staff = 8
rate = [1, 1.5]
margin = 5
"""
