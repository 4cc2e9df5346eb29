"""Vector decisions: schedules, allocation, storage, a modelling language, recourse, CVaR, shadow prices."""
