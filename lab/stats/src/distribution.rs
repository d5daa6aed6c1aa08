use statrs::{
    distribution::{ContinuousCDF, Normal, StudentsT},
    function::erf::erfc_inv,
};

/// P(Z > z) of the standard normal.
pub fn normal_above(z: f64) -> f64 {
    Normal::standard().sf(z)
}

pub fn normal_quantile(p: f64) -> f64 {
    -std::f64::consts::SQRT_2 * erfc_inv(2.0 * p)
}

/// P(T > t) of Student's t. `None` if the degrees of freedom are not positive or `t` is NaN.
pub fn t_above(t: f64, degrees_of_freedom: f64) -> Option<f64> {
    if t.is_nan() {
        return None;
    }
    Some(StudentsT::new(0.0, 1.0, degrees_of_freedom).ok()?.sf(t))
}

/// Quantile of Student's t for `p` from a half to 1, by bisection. `None` otherwise.
pub fn t_quantile(p: f64, degrees_of_freedom: f64) -> Option<f64> {
    let t = StudentsT::new(0.0, 1.0, degrees_of_freedom).ok()?;
    if !(0.5..1.0).contains(&p) {
        return None;
    }
    let mut low = 0.0_f64;
    let mut high = 1.0_f64;
    while t.sf(high) > 1.0 - p && high < 1e12 {
        high *= 2.0;
    }
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if t.sf(middle) > 1.0 - p {
            low = middle;
        } else {
            high = middle;
        }
        if high - low <= 1e-15 * high {
            break;
        }
    }
    Some(f64::midpoint(low, high))
}
