//! The repository as text: its files, and the little reading of Rust that the rules need.

use std::fs;
use std::path::Path;

/// Build output, packages that npm brings, and the folders that the demo and a server write where they are started.
const SKIPPED_FOLDERS: [&str; 4] = ["target", "node_modules", "nyala-demo", "nyala-data"];

/// One file of the repository.
pub struct File {
    /// Path from the root, with `/` between the parts.
    pub path: String,
    /// Text of the file; empty unless it is Rust, TOML or Markdown.
    pub text: String,
    /// Size on disk.
    pub bytes: u64,
}

impl File {
    /// Whether the path ends with `.extension`.
    pub fn is(&self, extension: &str) -> bool {
        self.path.rsplit_once('.').is_some_and(|(_, found)| found == extension)
    }

    /// The crate `x` of a path `crates/nyala-x/…`.
    pub fn krate(&self) -> Option<&str> {
        self.path.strip_prefix("crates/nyala-")?.split('/').next()
    }

    /// The path within the crate's `src`.
    pub fn in_src(&self) -> Option<&str> {
        let (_, rest) = self.path.strip_prefix("crates/")?.split_once('/')?;
        rest.strip_prefix("src/")
    }

    /// The text without line comments. Text after `//` in a string is lost too; rules that look for
    /// paths of modules do not mind.
    pub fn code(&self) -> String {
        let lines = self.text.lines().map(|line| line.split("//").next().unwrap_or_default());
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// Every file below `root`, sorted by path. Hidden files and folders are not looked at.
pub fn read(root: &Path) -> Vec<File> {
    let mut files = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            if name.starts_with('.') || SKIPPED_FOLDERS.contains(&name.as_str()) {
                continue;
            }
            let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            if entry.file_type().unwrap().is_dir() {
                folders.push(path);
            } else {
                files.push(read_file(root, path));
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

fn read_file(root: &Path, path: String) -> File {
    let full = root.join(&path);
    let bytes = fs::metadata(&full).unwrap().len();
    let mut file = File { path, text: String::new(), bytes };
    if file.is("rs") || file.is("toml") || file.is("md") {
        file.text = fs::read_to_string(&full).unwrap();
    }
    file
}

/// The line, from 1, that byte `at` of `text` is on.
pub fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Where `word` stands in `code` without being part of a longer name.
pub fn find_word(code: &str, word: &str) -> Vec<usize> {
    let alone = |at: &usize| !code[..*at].ends_with(is_name) && !code[at + word.len()..].starts_with(is_name);
    code.match_indices(word).map(|(at, _)| at).filter(alone).collect()
}

/// The names after `prefix::`, with their places: `a` and `b` for `prefix::{a::x, b}`.
pub fn names_after<'a>(code: &'a str, prefix: &str) -> Vec<(usize, &'a str)> {
    let mut names = Vec::new();
    for at in find_word(code, prefix) {
        let Some(rest) = code[at + prefix.len()..].strip_prefix("::") else { continue };
        if code[..at].ends_with("::") {
            continue;
        }
        match rest.strip_prefix('{') {
            Some(group) => names.extend(members(group).into_iter().map(|name| (at, name))),
            None => names.push((at, first_name(rest))),
        }
    }
    names
}

fn first_name(text: &str) -> &str {
    let end = text.find(|c| !is_name(c)).unwrap_or(text.len());
    &text[..end]
}

/// First name of each member of a group, from after its opening brace.
fn members(group: &str) -> Vec<&str> {
    let mut names = vec![first_name(group.trim_start())];
    let mut depth = 1;
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => names.push(first_name(group[at + 1..].trim_start())),
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    names.retain(|name| !name.is_empty());
    names
}
