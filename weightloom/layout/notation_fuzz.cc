// Any text either is refused with an Error or is a layout whose notation gives it back; of small
// ones coverage must agree with counting.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "weightloom/base/error.h"
#include "weightloom/layout/coverage.h"
#include "weightloom/layout/layout_testing.h"

namespace {

using weightloom::Layout;

std::optional<Layout> parsed(std::string_view text) {
  try {
    return weightloom::parse_layout(text);
  } catch (const weightloom::Error&) {
    return std::nullopt;
  }
}

void require(bool fact) {
  if (!fact) std::abort();
}

bool covered_once(const Layout& layout) {
  std::vector<int> times(static_cast<size_t>(layout.size()), 0);
  for (const auto& pair : weightloom::testing::pairs_of(layout.regions())) {
    ++times[static_cast<size_t>(pair.target)];
  }
  return std::ranges::all_of(times, [](int n) { return n == 1; });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto layout = parsed({reinterpret_cast<const char*>(data), size});
  if (!layout) return 0;
  const std::string text = to_string(*layout);
  require(to_string(weightloom::parse_layout(text)) == text);
  require(weightloom::testing::invariant_fault(*layout).empty());
  if (layout->size() <= 4096)
    require(!weightloom::coverage_fault(*layout) == covered_once(*layout));
  return 0;
}
