//! `nyala config`.

use std::io::Write;

use super::load::load;
use super::show::show;
use crate::args::ServeArgs;

/// Prints the configuration that `nyala serve` with the same arguments would use.
pub fn command(args: &ServeArgs) -> anyhow::Result<()> {
    let text = show(&load(&args.config, &args.flags())?)?;
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}
