// Bytes become a chain of operations; its result must equal the dense arrays', hold the invariant,
// give every element once, and survive coalescing and notation.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "weightloom/layout/chain_testing.h"
#include "weightloom/layout/coalesce.h"
#include "weightloom/layout/coverage.h"

namespace {

using weightloom::Layout;

class ByteDraw {
 public:
  explicit ByteDraw(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  bool empty() const { return bytes_.empty(); }
  int64_t operator()(int64_t n) {
    if (bytes_.empty()) return 0;
    const int64_t value = bytes_[0];
    bytes_ = bytes_.subspan(1);
    return value % n;
  }

 private:
  std::span<const uint8_t> bytes_;
};

void require(bool fact) {
  if (!fact) std::abort();
}

void check(const weightloom::testing::Chain<ByteDraw>& chain) {
  const Layout& layout = chain.layout();
  require(gather(layout, chain.sources()) == chain.dense());
  require(weightloom::testing::invariant_fault(layout).empty());
  require(!weightloom::coverage_fault(layout));
  const auto regions = layout.regions();
  const Layout joined =
      Layout::unchecked(layout.shape(), weightloom::coalesce({regions.begin(), regions.end()}));
  require(gather(joined, chain.sources()) == chain.dense());
  const Layout parsed = weightloom::parse_layout(to_string(layout));
  require(parsed.shape() == layout.shape() && std::ranges::equal(parsed.regions(), regions));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ByteDraw draw({data, size});
  weightloom::testing::Chain<ByteDraw> chain(draw);
  for (int step = 0; step < 20 && !draw.empty(); ++step) chain.step();
  check(chain);
  return 0;
}
