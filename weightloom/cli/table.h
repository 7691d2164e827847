// Aligned columns of text.
#pragma once

#include <string>
#include <vector>

namespace weightloom::cli {

enum class Align { left, right };

/// Rows of cells under one alignment per column. Cells are UTF-8 without control characters.
class Table {
 public:
  explicit Table(std::vector<Align> columns);

  /// A row has at most as many cells as there are columns.
  void add(std::vector<std::string> cells);
  bool empty() const noexcept { return rows_.empty(); }
  /// One line per row, two spaces between columns, each line after `indent`, no blanks at its end.
  std::string text(int indent = 0) const;

 private:
  std::vector<Align> columns_;
  std::vector<int> widths_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace weightloom::cli
