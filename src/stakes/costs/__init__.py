"""What an action costs: the protocol, costs of one number, parameter ranges."""
