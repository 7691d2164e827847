// The header of a safetensors file: bytes ↔ Header, strict and deterministic.
//
// A file is  u64 little-endian n · n bytes of JSON · data.  The JSON is an object: each name maps
// to
// {"dtype", "shape", "data_offsets": [begin, end]}, and "__metadata__" to an object of strings.
// Offsets count from the end of the JSON. Source: huggingface/safetensors, README "Format".
//
// Strict: starts with '{'; no duplicate key; no unknown field; no hole, overlap or byte after the
// last tensor; sizes agree; names hold no NUL. "__metadata__": null is read as none. Thread safety:
// values; parse and lay_out are pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weightloom/base/dtype.h"
#include "weightloom/base/export.h"
#include "weightloom/base/file.h"
#include "weightloom/base/shape.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// Longest header that is read or written, as the safetensors package has it.
inline constexpr int64_t kMaxHeaderBytes = 100'000'000;

/// The strings of "__metadata__", in file order.
using Metadata = std::vector<std::pair<std::string, std::string>>;

/// A tensor as a writer needs it.
struct TensorSpec {
  std::string name;          ///< not empty, without NUL
  DType dtype = DType::F32;  ///< of each element
  Shape shape;               ///< row-major

  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

/// A tensor in a file; offsets in bytes from the start of the data section.
struct HeaderTensor {
  std::string name;          ///< not empty, without NUL
  DType dtype = DType::F32;  ///< of each element
  Shape shape;               ///< row-major
  int64_t begin_bytes = 0;   ///< of its first byte
  int64_t end_bytes = 0;     ///< behind its last byte

  friend bool operator==(const HeaderTensor&, const HeaderTensor&) = default;
};

/// A header that was checked, or laid out; see the top of this file.
class Header {
 public:
  /// Checks `json` (without the length prefix) whole. `file_bytes` is the size of the file it came
  /// from; `file` its name for messages.
  /// Errors: format, naming file, tensor and numbers.
  static Header parse(std::string json, int64_t file_bytes, std::string_view file);
  /// As parse, of a header without its file: the data ends where the last tensor ends.
  static Header parse_alone(std::string json, std::string_view file);
  /// Reads and checks the header of an open file. Never allocates more than the file holds.
  static Header read(const File& file, std::string_view name);
  /// The header that the safetensors package writes for these tensors: by dtype descending, then by
  /// name; compact JSON, metadata first, padded with spaces so that data begins at a multiple of 8.
  /// Law: parse(lay_out(t, m).json()) has the same tensors and metadata, and equal input gives
  /// equal
  ///      bytes, whatever the order of `tensors`.
  /// Errors: usage if a name is empty, repeated or holds a NUL, or a tensor does not fill whole
  /// bytes;
  ///         format if the header would exceed kMaxHeaderBytes.
  static Header lay_out(std::vector<TensorSpec> tensors, Metadata metadata);

  /// This header with `names[i]` for tensors()[i]: dtypes, shapes, data offsets and metadata stay.
  /// Padded so that the data begin where they do here modulo `block_bytes`, and so can be shared
  /// block by block between the files; at a multiple of 8 in any case.
  /// Errors: as lay_out.
  Header with_names(std::vector<std::string> names, int64_t block_bytes) const;

  /// By begin offset; zero-size tensors of one offset by name.
  std::span<const HeaderTensor> tensors() const noexcept { return tensors_; }
  /// In file order.
  const Metadata& metadata() const noexcept { return metadata_; }
  /// The JSON text with its padding, without the length prefix.
  const std::string& json() const noexcept { return json_; }
  /// The length prefix and the JSON, as they stand at the start of the file.
  std::string bytes() const;
  /// Where the data section begins in the file.
  int64_t data_begin_bytes() const noexcept { return 8 + static_cast<int64_t>(json_.size()); }
  /// Length of the data section.
  int64_t data_bytes() const noexcept { return data_bytes_; }
  /// Size of the whole file.
  int64_t file_bytes() const noexcept { return data_begin_bytes() + data_bytes_; }

 private:
  Header() = default;

  std::string json_;
  std::vector<HeaderTensor> tensors_;
  Metadata metadata_;
  int64_t data_bytes_ = 0;
};

}  // namespace weightloom
