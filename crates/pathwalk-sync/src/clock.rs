//! The host's time of day, as exact as a tick: what costs a few nanoseconds where the exact time costs tens.

/// The seconds since 1970, by `CLOCK_REALTIME_COARSE`.
#[expect(
    unsafe_code,
    reason = "a call of the C library, whose vDSO code also works under valgrind"
)]
pub fn coarse_seconds() -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a timespec that may be written.
    let answer = unsafe { libc::clock_gettime(libc::CLOCK_REALTIME_COARSE, &raw mut now) };
    debug_assert_eq!(answer, 0, "Linux has this clock since 2.6.32");
    now.tv_sec
}
