"""The method: costs, best actions, scores, objective and models; torch and numpy only."""
