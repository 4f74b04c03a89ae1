"""Settings of `ci/findings --programs`: a few that were judged wrong or undetermined once, and that draws repeat."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import program_matrix as matrix  # noqa: E402
from guest_kernel import needs_guest  # noqa: E402
from test_programs import needs  # noqa: E402

WEFT = os.environ.get("WEFT_FAST", os.environ.get("WEFT", "build/weft"))


@needs_guest
@pytest.mark.parametrize("case", matrix.ONCE_WRONG, ids=lambda case: "-".join(map(str, case[:3])))
def test_a_setting_that_was_wrong_once(case):
    needs(*({case[2]} - {matrix.SILENT}))
    judged = matrix.Judged(Path(WEFT).resolve(), 0, 0, {"case": list(case)}).judge()
    assert judged.verdict == matrix.ONCE_WRONG[case], judged.explain()


@pytest.mark.parametrize("cause", sorted(matrix.CAUSES))
def test_a_case_is_the_setting_that_was_drawn(cause):
    """Whatever is drawn of a seed; and each cause fits to some setting."""
    for index in range(3):
        drawn = matrix.Setting(1, index, {"cause": cause})
        again = matrix.Setting(2, 0, {"case": list(drawn.case())})
        texts = [setting.text(setting.draw()[0]) for setting in (drawn, again)]
        assert texts[0] == texts[1]
        assert drawn.cause == cause
