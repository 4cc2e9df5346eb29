"""One thread for every test, since the tests themselves run in parallel; and the fixtures that several rooms share."""

import torch
from forked_processes import no_workers, warm, workers  # noqa: F401  fixtures
from sample_reports import sample_report  # noqa: F401  a fixture
from small_studies import make_study  # noqa: F401  a fixture

torch.set_num_threads(1)
