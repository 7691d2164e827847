// Tensors of one dtype and shape whose names differ in numbers only, as one line.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "weightloom/base/dtype.h"
#include "weightloom/base/shape.h"
#include "weightloom/cli/name_folding.h"

namespace weightloom::cli {

struct TensorGroup {
  FoldedName name;
  DType dtype = DType::F32;
  Shape shape;
  int64_t bytes = 0;                // of all its tensors
  std::vector<FoldedName> sources;  // by skeleton, in order of first use
};

/// Groups in the order in which their first tensors came.
class TensorGroups {
 public:
  void add(std::string_view name, DType dtype, const Shape& shape, int64_t bytes,
           std::span<const std::string_view> sources = {});
  const std::vector<TensorGroup>& groups() const noexcept { return groups_; }

 private:
  void number_sources(std::span<const std::string_view> sources);
  TensorGroup& group_of(DType dtype, const Shape& shape);

  std::vector<TensorGroup> groups_;
  std::unordered_map<std::string, size_t> places_;
  // Of the call that runs; members so that their storage serves all calls.
  NumberedName name_;
  NumberedName source_;
  std::vector<std::string> source_skeletons_;
  std::vector<size_t> source_places_;    // of each source, in source_skeletons_
  std::vector<int64_t> source_numbers_;  // of all sources, one after another
  std::string key_;
};

/// "BF16 [4096, 4096]".
std::string type_text(DType dtype, std::span<const int64_t> shape);
/// "×32", or nothing for one.
std::string times_text(int64_t count);

}  // namespace weightloom::cli
