#include "weightloom/cli/table.h"

#include <algorithm>
#include <utility>

#include "weightloom/cli/terminal.h"

namespace weightloom::cli {

Table::Table(std::vector<Align> columns) : columns_(std::move(columns)), widths_(columns_.size()) {}

void Table::add(std::vector<std::string> cells) {
  for (size_t i = 0; i < cells.size(); ++i) {
    widths_[i] = std::max(widths_[i], display_columns(cells[i]));
  }
  rows_.push_back(std::move(cells));
}

std::string Table::text(int indent) const {
  std::string result;
  for (const auto& row : rows_) {
    result.append(static_cast<size_t>(indent), ' ');
    for (size_t i = 0; i < row.size(); ++i) {
      const auto blanks = static_cast<size_t>(widths_[i] - display_columns(row[i]));
      if (i > 0) result += "  ";
      if (columns_[i] == Align::right) result.append(blanks, ' ');
      result += row[i];
      if (columns_[i] == Align::left) result.append(blanks, ' ');
    }
    result.erase(result.find_last_not_of(' ') + 1);
    result += '\n';
  }
  return result;
}

}  // namespace weightloom::cli
