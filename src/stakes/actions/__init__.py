"""The action of least expected cost: solvers, certificates, gradients, functions as costs."""
