// Chunk, Split and Concatenate: one tensor and its parts along a dim.
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "weightloom/base/checked.h"
#include "weightloom/layout/operations.h"
#include "weightloom/mapping/operation_internal.h"

namespace weightloom {
namespace {

using internal::refuse;
using Slots = std::vector<Slot>;

class Chunk final : public ConversionOperation {
 public:
  explicit Chunk(int dim) : dim_(dim) {}

  std::string name() const override { return "Chunk"; }

  Slots apply(Slots slots, const OperationContext& context) const override {
    const Layout whole = internal::only_tensor(name(), std::move(slots));
    const int64_t size = internal::size_of_dim(name(), whole, dim_);
    if (size % context.targets != 0) {
      refuse("shape_mismatch",
             fmt::format("Chunk: dim {} of {} does not divide into {} equal parts", dim_,
                         to_string(whole.shape()), context.targets));
    }
    const std::vector<int64_t> sizes(static_cast<size_t>(context.targets), size / context.targets);
    return internal::slots_of_parts(split(whole, dim_, sizes), context);
  }

  OperationPtr reverse() const override { return make_concatenate(dim_); }
  std::string to_json() const override {
    return fmt::format(R"({{"op": "Chunk", "dim": {}}})", dim_);
  }

 private:
  int dim_;
};

class Split final : public ConversionOperation {
 public:
  Split(int dim, std::vector<int64_t> sizes) : dim_(dim), sizes_(std::move(sizes)) {}

  std::string name() const override { return "Split"; }

  Slots apply(Slots slots, const OperationContext& context) const override {
    const Layout whole = internal::only_tensor(name(), std::move(slots));
    const int64_t size = internal::size_of_dim(name(), whole, dim_);
    const int64_t total = std::accumulate(sizes_.begin(), sizes_.end(), int64_t{0});
    if (total != size) {
      refuse("shape_mismatch", fmt::format("Split: sizes {} add up to {}, but dim {} of {} has {}",
                                           internal::to_json_list(sizes_), total, dim_,
                                           to_string(whole.shape()), size));
    }
    return internal::slots_of_parts(split(whole, dim_, sizes_), context);
  }

  OperationPtr reverse() const override { return make_concatenate(dim_, sizes_); }
  std::string to_json() const override {
    return fmt::format(R"({{"op": "Split", "dim": {}, "sizes": {}}})", dim_,
                       internal::to_json_list(sizes_));
  }

 private:
  int dim_;
  std::vector<int64_t> sizes_;
};

class Concatenate final : public ConversionOperation {
 public:
  Concatenate(int dim, std::vector<int64_t> sizes) : dim_(dim), sizes_(std::move(sizes)) {}

  std::string name() const override { return "Concatenate"; }

  Slots apply(Slots slots, const OperationContext& context) const override {
    std::vector<Layout> parts;
    for (auto& slot : slots) {
      for (auto& item : slot.items) parts.push_back(std::move(item));
    }
    if (parts.empty()) refuse("operation_refused", "Concatenate: there is nothing to concatenate");
    internal::size_of_dim(name(), parts.front(), dim_);
    internal::require_equal_shapes(name(), parts, dim_);
    require_sizes(parts);
    std::vector<Layout> whole;
    whole.push_back(concat(parts, dim_));
    return internal::slots_of_parts(std::move(whole), context);
  }

  OperationPtr reverse() const override {
    return sizes_.empty() ? make_chunk(dim_) : make_split(dim_, sizes_);
  }
  std::string to_json() const override {
    if (sizes_.empty()) return fmt::format(R"({{"op": "Concatenate", "dim": {}}})", dim_);
    return fmt::format(R"({{"op": "Concatenate", "dim": {}, "sizes": {}}})", dim_,
                       internal::to_json_list(sizes_));
  }

 private:
  void require_sizes(const std::vector<Layout>& parts) const {
    if (sizes_.empty()) return;
    std::vector<int64_t> found;
    for (const auto& part : parts) found.push_back(part.shape()[static_cast<size_t>(dim_)]);
    if (found == sizes_) return;
    refuse("shape_mismatch",
           fmt::format("Concatenate: the parts have sizes {} along dim {}, but sizes says {}",
                       internal::to_json_list(found), dim_, internal::to_json_list(sizes_)));
  }

  int dim_;
  std::vector<int64_t> sizes_;
};

void require_sizes(std::string_view operation, const std::vector<int64_t>& sizes) {
  int64_t total = 0;
  for (const int64_t size : sizes) {
    const auto sum = checked_add(total, size);
    if (size < 0 || !sum) {
      throw Error(ErrorCode::mapping, fmt::format("{}: sizes {} make no sense", operation,
                                                  internal::to_json_list(sizes)));
    }
    total = *sum;
  }
}

}  // namespace

OperationPtr make_chunk(int dim) {
  internal::require_dim("Chunk", dim);
  return std::make_shared<Chunk>(dim);
}

OperationPtr make_split(int dim, std::vector<int64_t> sizes) {
  internal::require_dim("Split", dim);
  require_sizes("Split", sizes);
  if (sizes.empty()) throw Error(ErrorCode::mapping, "Split: sizes is empty");
  return std::make_shared<Split>(dim, std::move(sizes));
}

OperationPtr make_concatenate(int dim, std::vector<int64_t> sizes) {
  internal::require_dim("Concatenate", dim);
  require_sizes("Concatenate", sizes);
  return std::make_shared<Concatenate>(dim, std::move(sizes));
}

}  // namespace weightloom
