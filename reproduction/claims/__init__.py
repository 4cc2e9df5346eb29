"""The paper's claims, each judged by what was measured."""
