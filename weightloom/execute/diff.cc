#include "weightloom/execute/diff.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightloom/base/checked.h"
#include "weightloom/base/quote.h"
#include "weightloom/codec/values.h"
#include "weightloom/execute/cast_findings.h"
#include "weightloom/execute/comparison_internal.h"
#include "weightloom/execute/source_files_internal.h"
#include "weightloom/plan/compile.h"

namespace weightloom {
namespace {

constexpr int64_t kChunkBytes = int64_t{1} << 18;

/// Both dtypes stand for numbers.
bool compares_values(DType a, DType b) { return has_values(a) && has_values(b); }

/// Compares the bytes of a dtype without numbers: those that differ.
ValueDifference compare_bytes(std::span<const std::byte> a, std::span<const std::byte> b) {
  ValueDifference result;
  result.elements = std::ssize(a);
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i]) ++result.other_bits;
  }
  return result;
}

/// Compares each tile of B with the same elements of A.
class DiffSink : public TileSink {
 public:
  /// `stored[i]`: the tensor of A that target i is compared with.
  DiffSink(const Syscalls& calls, const Checkpoint& a, const CopyProgram& program,
           std::vector<const StoredTensor*> stored)
      : files_(files_of(a)),
        open_(calls, files_),
        program_(program),
        stored_(std::move(stored)),
        results_(stored_.size()) {}

  std::span<std::byte> memory_for(const Tile&) override { return {}; }

  void deliver(size_t, const Tile& tile, std::span<const std::byte> bytes) override {
    for (const Piece& piece : tile.pieces) {
      const auto size = static_cast<size_t>(piece.end_bytes - piece.begin_bytes);
      compare(piece, bytes.subspan(static_cast<size_t>(piece.at_bytes), size));
    }
  }

  /// Of each target.
  std::vector<ValueDifference> results() const {
    std::vector<ValueDifference> whole(results_.size());
    for (size_t i = 0; i < results_.size(); ++i) {
      for (const auto& [first, part] : results_[i]) whole[i] = joined(whole[i], part, first);
    }
    return whole;
  }

 private:
  void compare(const Piece& piece, std::span<const std::byte> made) {
    const StoredTensor& a = *stored_[static_cast<size_t>(piece.target)];
    const DType dtype_b = program_.targets()[static_cast<size_t>(piece.target)].dtype;
    const bool by_value = compares_values(a.dtype, dtype_b);
    const int64_t width_a = by_value ? bits(a.dtype) / 8 : 1;
    const int64_t width_b = by_value ? bits(dtype_b) / 8 : 1;
    assert(piece.begin_bytes % width_b == 0 && std::ssize(made) % width_b == 0);
    const int64_t first = piece.begin_bytes / width_b;
    const int64_t count = std::ssize(made) / width_b;
    const auto chunk = std::make_unique_for_overwrite<std::byte[]>(kChunkBytes);
    ValueDifference found;
    for (int64_t done = 0; done < count;) {
      const int64_t some = std::min(kChunkBytes / width_a, count - done);
      const std::span ours(chunk.get(), static_cast<size_t>(some * width_a));
      open_.get(a.file).read_at(ours, a.offset_bytes + (first + done) * width_a);
      const auto theirs =
          made.subspan(static_cast<size_t>(done * width_b), static_cast<size_t>(some * width_b));
      found = joined(
          found,
          by_value ? compare_values(a.dtype, ours, dtype_b, theirs) : compare_bytes(ours, theirs),
          done);
      done += some;
    }
    note(piece.target, first, found);
  }

  void note(int32_t target, int64_t first, const ValueDifference& found) {
    const std::lock_guard lock(mutex_);
    results_[static_cast<size_t>(target)].emplace(first, found);
  }

  std::vector<ProgramFile> files_;
  SourceFiles open_;
  const CopyProgram& program_;
  std::vector<const StoredTensor*> stored_;
  std::mutex mutex_;
  std::vector<std::map<int64_t, ValueDifference>> results_;  // per target, by first element
};

std::string kind_text(const TensorKind& kind) {
  return fmt::format("{} {}", to_string(kind.dtype), to_string(kind.shape));
}

std::string at_text(int64_t index, const Shape& shape) {
  return to_string(coordinates_of(index, shape));
}

/// "3 of 24 values differ, by 0.5 at most, at [0, 3], first at [0, 1]; …".
std::string values_text(const ValueDifference& values, const Shape& shape) {
  std::string text = fmt::format("{} of {} values differ", values.differing, values.elements);
  if (values.max_abs_index >= 0) {
    text += fmt::format(", by {:.6g} at most, at {}", values.max_abs,
                        at_text(values.max_abs_index, shape));
  }
  text += fmt::format("; first at {}", at_text(values.first_index, shape));
  if (values.nan_only_in_a > 0) text += fmt::format("; {} NaN in A alone", values.nan_only_in_a);
  if (values.nan_only_in_b > 0) text += fmt::format("; {} NaN in B alone", values.nan_only_in_b);
  return text;
}

class Differ {
 public:
  Differ(const Syscalls& calls, const Checkpoint& a, const Checkpoint& b,
         const Selection& selection, const Registry& registry, const RunOptions& run)
      : calls_(calls), a_(a), b_(b), selection_(selection), registry_(registry), run_(run) {}

  DiffReport diff() && {
    Conversion conversion = bring_b();
    report_.findings = std::move(conversion.findings);
    const CopyProgram shared = match_targets(conversion.program);
    find_only_in_a(conversion.program);
    compare_shared(shared);
    std::ranges::sort(report_.differences, {}, &TensorDifference::tensor);
    report_.equal = report_.differences.empty();
    return std::move(report_);
  }

 private:
  Conversion bring_b() const {
    const bool as_it_is = !selection_.to && selection_.from == Side::unknown &&
                          (selection_.mapping == "auto" || selection_.mapping == "none");
    if (!as_it_is) return bring_to_layout_of(calls_, a_, b_, selection_, registry_, run_.threads);
    Selection names_stay = selection_;
    names_stay.mapping = "none";
    Conversion conversion = plan_conversion(calls_, b_, names_stay, registry_);
    // That A alone has the tensors wanted is a difference, and no fault.
    if (selects_of_a()) {
      std::erase_if(conversion.findings,
                    [](const Finding& finding) { return finding.code == "nothing_selected"; });
    }
    if (conversion.is_refused(selection_.lenient)) {
      throw refusal_of(conversion.findings, selection_.lenient);
    }
    return conversion;
  }

  bool selects_of_a() const {
    return std::ranges::any_of(a_.tensors(), [this](const StoredTensor& tensor) {
      return is_selected(selection_, tensor.name);
    });
  }

  /// The targets that A has with the same shape, and in dtypes that can be compared.
  CopyProgram match_targets(const CopyProgram& program) {
    std::vector<bool> keep;
    for (const ProgramTarget& target : program.targets()) {
      const StoredTensor* stored = a_.find(target.name);
      keep.push_back(stored != nullptr && can_compare(*stored, target));
      if (keep.back()) stored_.push_back(stored);
      if (stored == nullptr) {
        add(target.name, "only_in_b", std::nullopt, TensorKind{target.dtype, target.shape});
      }
    }
    return select_targets(program, keep);
  }

  bool can_compare(const StoredTensor& a, const ProgramTarget& b) {
    const bool comparable = a.dtype == b.dtype || compares_values(a.dtype, b.dtype);
    if (a.shape == b.shape && comparable) return true;
    add(a.name, a.shape == b.shape ? "dtype" : "shape", TensorKind{a.dtype, a.shape},
        TensorKind{b.dtype, b.shape});
    return false;
  }

  void find_only_in_a(const CopyProgram& program) {
    std::vector<std::string_view> names;
    for (const ProgramTarget& target : program.targets()) names.push_back(target.name);
    std::ranges::sort(names);
    for (const StoredTensor& tensor : a_.tensors()) {
      if (!is_selected(selection_, tensor.name)) continue;
      if (std::ranges::binary_search(names, tensor.name)) continue;
      add(tensor.name, "only_in_a", TensorKind{tensor.dtype, tensor.shape}, std::nullopt);
    }
  }

  void compare_shared(const CopyProgram& shared) {
    DiffSink sink(calls_, a_, shared, stored_);
    const RunStatistics done = run_targets_apart(calls_, shared, sink, run_);
    std::ranges::move(cast_findings(shared, done), std::back_inserter(report_.findings));
    report_.tensors = std::ssize(shared.targets());
    report_.bytes = shared.target_bytes();
    const auto results = sink.results();
    for (size_t i = 0; i < results.size(); ++i) {
      note_result(*stored_[i], shared.targets()[i], results[i]);
    }
  }

  void note_result(const StoredTensor& a, const ProgramTarget& b, const ValueDifference& values) {
    const TensorKind kind_a = {a.dtype, a.shape};
    const TensorKind kind_b = {b.dtype, b.shape};
    if (a.dtype != b.dtype) {
      add(a.name, "dtype", kind_a, kind_b, values);
    } else if (!compares_values(a.dtype, b.dtype)) {
      if (values.other_bits > 0) add_bytes(a.name, kind_a, values);
    } else if (values.differing > 0) {
      add(a.name, "values", kind_a, kind_b, values);
    } else if (values.other_bits > 0) {
      add(a.name, "bits", kind_a, kind_b, values);
    }
  }

  /// Of a dtype without numbers: `values` would count bytes, so only the message says it.
  void add_bytes(const std::string& tensor, const TensorKind& kind, const ValueDifference& bytes) {
    report_.differences.push_back(
        {tensor, "bits",
         fmt::format("{}: {} of {} bytes differ; {} is not compared by "
                     "value",
                     quote(tensor), bytes.other_bits, bytes.elements, to_string(kind.dtype)),
         kind, kind, std::nullopt});
  }

  void add(const std::string& tensor, std::string code, std::optional<TensorKind> a,
           std::optional<TensorKind> b, std::optional<ValueDifference> values = std::nullopt) {
    TensorDifference difference = {tensor, std::move(code), "", std::move(a), std::move(b), values};
    difference.message = fmt::format("{}: {}", quote(tensor), message_of(difference));
    report_.differences.push_back(std::move(difference));
  }

  static std::string message_of(const TensorDifference& difference) {
    if (!difference.b) return fmt::format("in A alone, {}", kind_text(*difference.a));
    if (!difference.a) return fmt::format("in B alone, {}", kind_text(*difference.b));
    const Shape& shape = difference.a->shape;
    if (difference.code == "shape") {
      return fmt::format("{} in A, {} in B", kind_text(*difference.a), kind_text(*difference.b));
    }
    if (difference.code == "dtype") return dtype_message(difference);
    if (difference.code == "values") return values_text(*difference.values, shape);
    return fmt::format("{} of {} elements have the same value in other bits",
                       difference.values->other_bits, difference.values->elements);
  }

  static std::string dtype_message(const TensorDifference& difference) {
    const std::string dtypes = fmt::format("{} in A, {} in B", to_string(difference.a->dtype),
                                           to_string(difference.b->dtype));
    if (!difference.values) return dtypes + "; values are not compared";
    if (difference.values->differing == 0) return dtypes + "; all values are equal";
    return dtypes + "; " + values_text(*difference.values, difference.a->shape);
  }

  const Syscalls& calls_;
  const Checkpoint& a_;
  const Checkpoint& b_;
  const Selection& selection_;
  const Registry& registry_;
  const RunOptions& run_;
  std::vector<const StoredTensor*> stored_;
  DiffReport report_;
};

}  // namespace

DiffReport diff(const Syscalls& calls, const Checkpoint& a, const Checkpoint& b,
                const Selection& selection, const Registry& registry, const RunOptions& run) {
  if (a.is_sharded()) {
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: diff needs whole tensors on side A, and this is a sharded folder",
                            a.path()),
                "give it as B, convert it to whole tensors first, or use verify");
  }
  return Differ(calls, a, b, selection, registry, run).diff();
}

Shape coordinates_of(int64_t index, const Shape& shape) {
  Shape place(shape.size());
  for (size_t dim = shape.size(); dim-- > 0;) {
    place[dim] = index % shape[dim];
    index /= shape[dim];
  }
  return place;
}

}  // namespace weightloom
