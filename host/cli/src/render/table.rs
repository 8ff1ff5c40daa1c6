use std::fmt::{self, Display};

use super::Escaped;

/// Rows of text in columns as wide as their widest cell.
pub(crate) struct Table<const COLUMNS: usize> {
    rows: Vec<[String; COLUMNS]>,
}

impl<const COLUMNS: usize> Table<COLUMNS> {
    /// Creates a table with these headings.
    pub(crate) fn new(headings: [&str; COLUMNS]) -> Self {
        Self { rows: vec![headings.map(str::to_owned)] }
    }

    /// Adds a row; cells are escaped.
    pub(crate) fn row(&mut self, cells: [String; COLUMNS]) {
        self.rows.push(cells.map(|cell| Escaped(&cell).to_string()));
    }
}

impl<const COLUMNS: usize> Display for Table<COLUMNS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].chars().count());
            cells.max().unwrap_or(0)
        };
        let widths: [usize; COLUMNS] = std::array::from_fn(width);
        for row in &self.rows {
            let padded = row.iter().zip(widths);
            let line: Vec<String> = padded.map(|(cell, width)| format!("{cell:width$}")).collect();
            writeln!(f, "{}", line.join("  ").trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(["NAME", "STATE"]);
        table.row(["python-data".to_owned(), "a\nb".to_owned()]);
        assert_eq!(table.to_string(), "NAME         STATE\npython-data  a\\nb\n");
    }
}
