#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "weightloom/layout/coverage.h"
#include "weightloom/layout/operations.h"
#include "weightloom/layout/relation.h"
#include "weightloom/mapping/strict_json_internal.h"
#include "weightloom/safetensors/rank_files.h"
#include "weightloom/sharding/dcp_parts.h"
#include "weightloom/sharding/dcp_shards_internal.h"

namespace weightloom {
namespace {

using nlohmann::json;

/// Where a stored tensor begins in the whole.
struct Box {
  SourceId source = 0;
  Shape offsets;
};

/// What a file's metadata say of its tensors: name → first element.
using Offsets = std::map<std::string, Shape>;

Offsets offsets_of(const CheckpointFile& file) {
  Offsets offsets;
  const auto& metadata = file.header.metadata();
  const auto found = std::ranges::find(metadata, kDcpShardingKey, &Metadata::value_type::first);
  if (found == metadata.end()) return offsets;
  const std::string where = fmt::format("{}: {}", file.name, kDcpShardingKey);
  const json value = internal::parse_json_object(found->second, where, ErrorCode::format);
  for (const auto& [name, entry] : value.items()) {
    const internal::StrictObject tensor(entry, fmt::format("{}: '{}'", where, name),
                                        ErrorCode::format, {"saved_offsets"});
    offsets.emplace(name, tensor.integers("saved_offsets"));
  }
  return offsets;
}

class Joining {
 public:
  explicit Joining(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  WholeTensors join() && {
    for (const CheckpointFile& file : checkpoint_.files()) offsets_.push_back(offsets_of(file));
    const auto tensors = checkpoint_.tensors();
    for (size_t first = 0, end = 0; first < tensors.size(); first = end) {
      while (end < tensors.size() && tensors[end].name == tensors[first].name) ++end;
      add(first, end);
    }
    return std::move(result_);
  }

 private:
  const StoredTensor& stored(SourceId source) const {
    return checkpoint_.tensors()[static_cast<size_t>(source)];
  }

  void report(const std::string& code, const StoredTensor& tensor, std::string message) {
    result_.findings.push_back({Severity::error, code, tensor.name,
                                checkpoint_.files()[static_cast<size_t>(tensor.file)].name,
                                std::move(message)});
  }

  /// Without an entry a tensor is whole.
  Shape offsets(const StoredTensor& tensor) const {
    const Offsets& known = offsets_[static_cast<size_t>(tensor.file)];
    const auto found = known.find(tensor.name);
    return found == known.end() ? Shape(tensor.shape.size(), 0) : found->second;
  }

  void add(size_t first, size_t end) {
    std::vector<Box> boxes;
    for (size_t i = first; i < end; ++i) {
      const auto source = static_cast<SourceId>(i);
      Box box{source, offsets(stored(source))};
      if (!fits(stored(static_cast<SourceId>(first)), box)) return;
      const auto same = std::ranges::find_if(boxes, [&](const Box& other) {
        return other.offsets == box.offsets && stored(other.source).shape == stored(source).shape;
      });
      if (same == boxes.end()) {
        boxes.push_back(std::move(box));
      } else {
        result_.replicas.push_back({same->source, source});
      }
    }
    put_together(boxes);
  }

  bool fits(const StoredTensor& first, const Box& box) {
    const StoredTensor& tensor = stored(box.source);
    const bool in_bounds = std::ranges::all_of(
        box.offsets, [](int64_t at) { return at >= 0 && at < int64_t{1} << 48; });
    if (tensor.dtype == first.dtype && box.offsets.size() == first.shape.size() &&
        tensor.shape.size() == first.shape.size() && in_bounds) {
      return true;
    }
    report("part_mismatch", tensor,
           fmt::format("tensor '{}' is {} {} at {}, which does not go with another part, {} {}",
                       tensor.name, to_string(tensor.dtype), to_string(tensor.shape),
                       to_string(box.offsets), to_string(first.dtype), to_string(first.shape)));
    return false;
  }

  void put_together(const std::vector<Box>& boxes) {
    const StoredTensor& first = stored(boxes.front().source);
    Shape whole(first.shape.size(), 0);
    for (const Box& box : boxes) {
      for (size_t d = 0; d < whole.size(); ++d) {
        whole[d] = std::max(whole[d], box.offsets[d] + stored(box.source).shape[d]);
      }
    }
    if (!checked_bytes(first.dtype, whole)) {
      return report("bad_sharding", first,
                    fmt::format("'{}': {} is no shape", first.name, to_string(whole)));
    }
    Layout layout = layout_of(boxes, whole);
    if (const auto fault = coverage_fault(layout)) {
      return report("bad_sharding", first,
                    fmt::format("'{}': the parts do not make up a tensor {}: element {} in "
                                "row-major order is held {} times, needed once",
                                first.name, to_string(whole), fault->offset, fault->times));
    }
    result_.tensors.push_back({first.name, first.dtype, std::move(layout)});
  }

  Layout layout_of(const std::vector<Box>& boxes, const Shape& whole) const {
    Relation cutting{{whole}, {}, {{}}};
    for (const Box& box : boxes) {
      Layout part = identity(0, whole);
      for (size_t d = 0; d < whole.size(); ++d) {
        const int64_t begin = box.offsets[d];
        part = slice(part, static_cast<int>(d), begin, begin + stored(box.source).shape[d]);
      }
      cutting.targets.push_back(std::move(part));
    }
    std::vector<Region> regions = std::move(invert(cutting).targets.front()).regions();
    for (Region& region : regions) {
      region.source = boxes[static_cast<size_t>(region.source)].source;
    }
    return Layout::unchecked(whole, std::move(regions));
  }

  const Checkpoint& checkpoint_;
  std::vector<Offsets> offsets_;  // by file
  WholeTensors result_;
};

/// As it is where no character can need an escape.
void append_json_string(std::string& to, std::string_view text) {
  const bool is_plain = std::ranges::all_of(
      text, [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; });
  if (!is_plain) {
    to += json(text).dump();
    return;
  }
  to += '"';
  to += text;
  to += '"';
}

}  // namespace

WholeTensors whole_of_dcp_shards(const Checkpoint& checkpoint) {
  return Joining(checkpoint).join();
}

std::string format_dcp_parts(const std::vector<DcpPart>& parts) {
  std::string text = "{";
  for (const DcpPart& part : parts) {
    if (text.size() > 1) text += ',';
    append_json_string(text, part.name);
    text += R"(:{"saved_offsets":[)";
    for (size_t d = 0; d < part.offsets.size(); ++d) {
      if (d > 0) text += ',';
      text += fmt::format_int(part.offsets[d]).c_str();
    }
    text += "]}";
  }
  return text + "}";
}

std::optional<Shape> box_offsets(const LocalPart& part, const Shape& shape) {
  Shape offsets;
  for (const Segments& segments : part) {
    if (segments.empty()) {
      offsets.push_back(shape[offsets.size()]);
      continue;
    }
    if (segments.size() > 1 || segments[0].is_pad) return std::nullopt;
    offsets.push_back(segments[0].begin);
  }
  return offsets;
}

}  // namespace weightloom
