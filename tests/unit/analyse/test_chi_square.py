import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from assay.analyse.intervals import chi_square_cdf, chi_square_quantile


@given(p=st.floats(1e-4, 1 - 1e-4), df=st.one_of(st.integers(1, 2000), st.floats(1, 500)))
def test_quantile_agrees_with_scipy(p: float, df: float) -> None:
    assert chi_square_quantile(p, df) == pytest.approx(stats.chi2.ppf(p, df), rel=1e-8)


@given(x=st.floats(0, 5000), df=st.floats(1, 2000))
def test_cdf_agrees_with_scipy(x: float, df: float) -> None:
    assert chi_square_cdf(x, df) == pytest.approx(stats.chi2.cdf(x, df), rel=1e-8, abs=1e-12)


@pytest.mark.parametrize(("p", "df"), [(0, 5), (1, 5), (0.5, 0.5)])
def test_quantile_refuses_what_has_no_answer(p: float, df: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        chi_square_quantile(p, df)
