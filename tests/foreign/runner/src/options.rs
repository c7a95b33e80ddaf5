//! What the command line says.

use std::path::PathBuf;

pub const USAGE: &str = "foreign-suites NAME FOLDER --nyala ADDRESS --postgres ADDRESS [options]

  NAME                 the suite's name in skipped.txt and expected.txt
  FOLDER               its files; those that end in .slt or .test are read
  --nyala, --postgres  host=… port=… user=… dbname=…
  --skipped FILE       files and records that are left out, with reasons
  --differences FILE   where each difference is written, with all three answers
  --connections N      how many files are run at once (1)
  --every N            asks one of N queries, chosen by the seed; statements always run (1)
  --files N            takes one of N files, chosen by the seed (1)
  --seed N             another sample (1)
  --only TEXT          files whose path contains it
  --least N            fails if the share of equal answers is below this percentage";

/// The suite, both servers, and how much of it is asked.
pub struct Options {
    pub suite: String,
    pub folder: PathBuf,
    pub nyala: String,
    pub postgres: String,
    pub skipped: Option<PathBuf>,
    pub differences: Option<PathBuf>,
    pub connections: usize,
    pub every: u64,
    pub files: u64,
    pub seed: u64,
    pub only: String,
    pub least: f64,
}

impl Options {
    /// Reads arguments; the error says which one is wrong.
    pub fn read(arguments: impl Iterator<Item = String>) -> Result<Options, String> {
        let mut options = Options {
            suite: String::new(),
            folder: PathBuf::new(),
            nyala: String::new(),
            postgres: String::new(),
            skipped: None,
            differences: None,
            connections: 1,
            every: 1,
            files: 1,
            seed: 1,
            only: String::new(),
            least: 0.0,
        };
        let mut plain = Vec::new();
        let mut arguments = arguments;
        while let Some(name) = arguments.next() {
            if !name.starts_with("--") {
                plain.push(name);
                continue;
            }
            let value = arguments.next().ok_or(format!("`{name}` wants a value"))?;
            options.set(&name, value)?;
        }
        let [suite, folder] = plain.try_into().map_err(|_| "a name and a folder are wanted")?;
        (options.suite, options.folder) = (suite, folder.into());
        if options.nyala.is_empty() || options.postgres.is_empty() {
            return Err("both servers are wanted".into());
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: String) -> Result<(), String> {
        let number = || value.parse::<u64>().map_err(|_| format!("`{name} {value}` is no number"));
        match name {
            "--nyala" => self.nyala = value,
            "--postgres" => self.postgres = value,
            "--skipped" => self.skipped = Some(value.into()),
            "--differences" => self.differences = Some(value.into()),
            "--connections" => self.connections = number()?.max(1) as usize,
            "--every" => self.every = number()?.max(1),
            "--files" => self.files = number()?.max(1),
            "--seed" => self.seed = number()?,
            "--only" => self.only = value,
            "--least" => self.least = value.parse().map_err(|_| format!("`{name} {value}` is no number"))?,
            _ => return Err(format!("unknown option `{name}`")),
        }
        Ok(())
    }

    /// Whether one of `every` things is in the sample: the same for the same name, number and seed.
    pub fn takes(&self, every: u64, name: &str, number: u64) -> bool {
        let mut hash = self.seed ^ 0xcbf2_9ce4_8422_2325;
        for byte in name.bytes().chain(number.to_le_bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
        hash ^= hash >> 32;
        hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33 < (1u64 << 31) / every || every == 1
    }
}
