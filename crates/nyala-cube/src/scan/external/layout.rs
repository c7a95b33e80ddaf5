//! Decides which objects below a location are files of the table, and in which partition folders they are.

use nyala_model::FileFormat;
use nyala_storage::object::Location;
use object_store::path::Path;
use percent_encoding::percent_decode_str;

use super::delta::DeltaTable;
use super::pattern::{fits, is_pattern};

/// The place of a table's files.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Layout {
    prefix: Path,
    is_folder: bool,
    /// Pattern of the path below the prefix. Without a pattern, the format decides which files belong to the table.
    pattern: Option<Vec<String>>,
    format: FileFormat,
    /// Columns in the names of folders, outermost first.
    partition_columns: Vec<String>,
    /// The Delta table, whose log lists the files; none if the folder is listed.
    delta: Option<DeltaTable>,
}

/// A folder `name=value`.
pub type Folder = (String, String);

impl Layout {
    /// Files of a format below a location.
    pub fn new(location: &Location, format: FileFormat, partition_columns: &[String]) -> Self {
        let parts: Vec<String> = location.path().parts().map(|part| part.as_ref().to_owned()).collect();
        let fixed = parts.iter().take_while(|part| !is_pattern(part)).count();
        let is_there = location.local_path().is_some_and(|path| path.exists());
        let pattern = parts.get(fixed..).filter(|rest| !rest.is_empty() && !is_there).map(<[String]>::to_vec);
        let prefix = match pattern {
            Some(_) => Path::from_iter(location.path().parts().take(fixed)),
            None => location.path().clone(),
        };
        let is_folder = pattern.is_some() || location.is_folder();
        Self {
            prefix,
            is_folder,
            pattern,
            format,
            partition_columns: partition_columns.to_vec(),
            delta: None,
        }
    }

    /// The files in the log of a Delta table.
    pub fn of_delta(location: &Location, table: DeltaTable) -> Self {
        let prefix = location.path().clone();
        let (is_folder, pattern, partition_columns) = (true, None, Vec::new());
        let format = FileFormat::Delta;
        Self { prefix, is_folder, pattern, format, partition_columns, delta: Some(table) }
    }

    /// The Delta table whose log lists the files; none if the folder is listed.
    pub fn delta(&self) -> Option<&DeltaTable> {
        self.delta.as_ref()
    }

    /// The path of the location in its store.
    pub fn prefix(&self) -> &Path {
        &self.prefix
    }

    /// Whether the location is a pattern.
    pub fn is_pattern(&self) -> bool {
        self.pattern.is_some()
    }

    /// Whether the location is a folder.
    pub fn is_folder(&self) -> bool {
        self.is_folder
    }

    /// Whether files of the table may lie at any depth below a folder that the first `depth` parts of the pattern lead to.
    pub fn is_any_below(&self, depth: usize) -> bool {
        let rest = self.pattern.as_ref().map(|pattern| pattern.get(depth..).unwrap_or_default());
        rest.is_none_or(|rest| rest.first().is_some_and(|part| part == "**"))
    }

    /// Whether a folder fits the part of the pattern at `depth`, and another part follows.
    pub fn leads_to(&self, folder: &Path, depth: usize) -> bool {
        let pattern = self.pattern.as_deref().unwrap_or_default();
        let part = pattern.get(depth..=depth).filter(|_| depth + 1 < pattern.len());
        part.is_some_and(|part| fits(part, &[folder.filename().unwrap_or_default()]))
    }

    /// The partition folders of a data file, without those below the last partition column; none if the object is no file of
    /// the table.
    pub fn folders(&self, file: &Path) -> Option<Vec<Folder>> {
        let mut folders = self.all_folders(file)?;
        if !self.partition_columns.is_empty() {
            let names = folders.iter().map(|(name, _)| name.as_str());
            if !are_same(names.take(self.partition_columns.len()), &self.partition_columns) {
                return None;
            }
            folders.truncate(self.partition_columns.len());
        }
        Some(folders)
    }

    /// All folders `name=value` between the location and a data file. Only folders are partitions, whatever the name of the
    /// file is.
    pub fn all_folders(&self, file: &Path) -> Option<Vec<Folder>> {
        if !self.is_folder {
            return (file == &self.prefix).then(Vec::new);
        }
        let parts: Vec<_> = file.prefix_match(&self.prefix)?.collect();
        let (name, folders) = parts.split_last()?;
        if let Some(pattern) = &self.pattern {
            let parts: Vec<&str> = parts.iter().map(AsRef::as_ref).collect();
            let is_found = fits(pattern, &parts);
            return is_found
                .then(|| folders.iter().filter_map(|folder| folder_of(folder.as_ref())).collect());
        }
        if !is_data(name.as_ref()) || !self.is_of_format(name.as_ref()) {
            return None;
        }
        folders.iter().map(|folder| folder_of(folder.as_ref())).collect()
    }

    /// The path of a file below the location, as errors show it.
    pub fn name_of(&self, file: &Path) -> String {
        let below = file.prefix_match(&self.prefix).filter(|_| self.is_folder);
        let below =
            below.map(|parts| parts.map(|part| part.as_ref().to_owned()).collect::<Vec<_>>().join("/"));
        below.unwrap_or_else(|| file.filename().unwrap_or_default().to_owned())
    }

    fn is_of_format(&self, name: &str) -> bool {
        match self.format {
            FileFormat::Parquet | FileFormat::Delta => name.ends_with(".parquet"),
            // Compressed files end with another extension; which compression is an option of the table.
            FileFormat::Csv => name.contains(".csv"),
            FileFormat::NdJson => {
                name.split_once('.').is_some_and(|(_, extensions)| extensions.contains("json"))
            }
        }
    }
}

/// Whether folders are those of the columns. SQL folds the case of letters, and so does Spark for names of folders.
pub fn are_same<'a>(folders: impl Iterator<Item = &'a str>, columns: &[String]) -> bool {
    folders.map(str::to_ascii_lowercase).eq(columns.iter().map(|column| column.to_ascii_lowercase()))
}

/// Whether a file or folder holds data, as Hive and Spark take it: other programs keep notes in names that begin with `.` or `_`.
fn is_data(name: &str) -> bool {
    !name.starts_with('.') && (!name.starts_with('_') || name.contains('='))
}

/// The column and the value in the name of a folder. Writers encode characters that a path cannot have.
fn folder_of(name: &str) -> Option<Folder> {
    let (column, value) = name.split_once('=').filter(|(column, _)| !column.is_empty())?;
    is_data(name).then(|| (decoded(column), decoded(value)))
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8().map_or_else(|_| text.to_owned(), Into::into)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn layout(location: &str, columns: &[&str]) -> Layout {
        let columns: Vec<String> = columns.iter().map(|name| (*name).to_owned()).collect();
        Layout::new(&Location::parse(location).unwrap(), FileFormat::Parquet, &columns)
    }

    #[test]
    fn files_are_told_from_folders_and_notes() {
        let check = |columns: &[&str], file: &str, expected: Option<&[(&str, &str)]>| {
            let found = layout("/t/", columns).folders(&Path::parse(file).unwrap());
            let expected = expected.map(|folders| {
                folders.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
            });
            assert_eq!(found, expected, "{file}");
        };
        check(&[], "t/a.parquet", Some(&[]));
        check(&[], "t/run=5.parquet", Some(&[]));
        check(&[], "t/_x=1.parquet", Some(&[]));
        check(&[], "t/x=1/a.parquet", Some(&[("x", "1")]));
        for no_data in ["t/.a.parquet", "t/_a.parquet", "t/a.crc", "t/_temporary/a.parquet", "t/in/a.parquet"]
        {
            check(&[], no_data, None);
        }
        check(&[], "u/a.parquet", None);
        check(&["x"], "t/a.parquet", None);
        check(&["x"], "t/x=a%2Fb%20c/a.parquet", Some(&[("x", "a/b c")]));
        check(&["x"], "t/x=1/y=2/a.parquet", Some(&[("x", "1")]));
        check(&["x"], "t/X=1/a.parquet", Some(&[("X", "1")]));
        check(&["_x"], "t/_x=1/a.parquet", Some(&[("_x", "1")]));
        check(&["x", "y"], "t/y=2/x=1/a.parquet", None);
        let pattern = layout("/t/x=1/**/*.odd", &[]);
        let found = pattern.folders(&Path::parse("t/x=1/in/y=2/a.odd").unwrap());
        assert_eq!(found, Some(vec![("y".to_owned(), "2".to_owned())]));
        let single = layout("/t/x=1.odd", &[]);
        assert_eq!(single.folders(&Path::parse("t/x=1.odd").unwrap()), Some(Vec::new()));
    }
}
