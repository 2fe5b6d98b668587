import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from assay.analyse.intervals import binomial_cdf, binomial_rank, incomplete_beta, t_quantile, t_tail


@pytest.mark.parametrize("df", [1, 1.3, 2, 2.7, 4, 9.5, 30, 100, 1234.5, 1e5, 1e6, 2e7])
@pytest.mark.parametrize("level", [0.01, 0.5, 0.8, 0.9, 0.95, 0.99, 0.9999])
def test_t_quantile_agrees_with_scipy(df: float, level: float) -> None:
    assert t_quantile(level, df) == pytest.approx(stats.t.ppf((1 + level) / 2, df), rel=1e-6)


@given(level=st.floats(0.01, 0.999), df=st.floats(1, 1e6))
def test_t_quantile_undoes_the_tail(level: float, df: float) -> None:
    assert t_tail(t_quantile(level, df), df) == pytest.approx(1 - level, rel=1e-7)


@pytest.mark.parametrize(("level", "df"), [(0, 5), (1, 5), (0.95, 0.5)])
def test_t_quantile_refuses_what_has_no_answer(level: float, df: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        t_quantile(level, df)


@given(x=st.floats(0, 1), a=st.floats(0.5, 500), b=st.floats(0.5, 500))
def test_incomplete_beta_agrees_with_scipy(x: float, a: float, b: float) -> None:
    assert incomplete_beta(x, a, b) == pytest.approx(special.betainc(a, b, x), rel=1e-8, abs=1e-12)


@given(n=st.integers(1, 5000), p=st.floats(0.001, 0.999), k=st.integers(-1, 5000))
def test_binomial_cdf_agrees_with_scipy(n: int, p: float, k: int) -> None:
    assert binomial_cdf(k, n, p) == pytest.approx(stats.binom.cdf(k, n, p), rel=1e-7, abs=1e-12)


@given(n=st.integers(1, 3000), p=st.floats(0.01, 0.99), tail=st.sampled_from([0.005, 0.01, 0.025, 0.2]))
def test_binomial_rank_is_the_largest_that_fits(n: int, p: float, tail: float) -> None:
    k = binomial_rank(n, p, tail)
    assert k == -1 or binomial_cdf(k, n, p) <= tail
    assert k == n - 1 or binomial_cdf(k + 1, n, p) > tail
