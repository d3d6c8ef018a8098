//! The fuzz targets on random bytes, with a stable compiler: `plain [--seconds 60] [--seed N]`.

use std::error::Error;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = pico_args::Arguments::from_env();
    let seconds: u64 = args.opt_value_from_str("--seconds")?.unwrap_or(60);
    let given: Option<u64> = args.opt_value_from_str("--seed")?;
    let seed = match given {
        Some(seed) => seed,
        None => SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs(),
    };
    println!("seed {seed}");
    let mut random = Random(seed | 1);
    let (start, mut cases) = (Instant::now(), 0u64);
    while start.elapsed() < Duration::from_secs(seconds) {
        let bytes: Vec<u8> = (0..16 + random.next() % 240).map(|_| random.next() as u8).collect();
        local_map_fuzz::attribute(&bytes);
        cases += 1;
    }
    println!("{cases} cases in {seconds} s");
    Ok(())
}

/// Xorshift, followed by a multiplication.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32
    }
}
