"""Your own cost: any torch function of action and outcome, checked before it is trained with."""

import torch

import stakes


def irrigation(water: torch.Tensor, rain: torch.Tensor) -> torch.Tensor:
    """Water costs money; what the crop lacks of 30 mm costs more, and ever more."""
    deficit = torch.relu(30 - rain - water)
    return water + 0.2 * deficit**2


cost = stakes.cost_function(irrigation, lower=0.0, upper=30.0, convex=True)

torch.manual_seed(0)
rain = torch.distributions.Gamma(2.0, 0.15).sample((1000, 50, 1))  # 1,000 forecasts of 50 members, in mm
print(stakes.check_cost(cost, rain))

solution = stakes.solve_action(cost, rain[:1])
print(f"\nfirst forecast: give {solution.action.item():.1f} mm, expected cost {solution.expected_cost.item():.2f}")

members = rain[:1].clone().requires_grad_()
stakes.optimal_action(cost, members).sum().backward()
print(f"a member 1 mm wetter would save {-members.grad.sum().item() / 50:.3f} mm on average")
