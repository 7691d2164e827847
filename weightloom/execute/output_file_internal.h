// One file that a conversion writes: of known size from the start, past the page cache where it
// can.
//
// Bytes that go through the page cache are copied once more and compete for the memory that the
// kernel lends to dirty pages; a checkpoint is written once and larger than either. So whole pages
// are written directly from the worker's buffer, and only the ragged ends of a piece through the
// cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "weightloom/base/file.h"

namespace weightloom {

/// Buffers, offsets and sizes of direct writes are multiples of this; a buffer that lies as its
/// bytes lie in the file (address and offset equal modulo this) is written without a copy.
inline constexpr int64_t kDirectAlignmentBytes = 4096;

/// Thread safety: write may be called concurrently for different ranges.
class OutputFile {
 public:
  /// Creates the file, or with `keep` opens what is there, and reserves `size_bytes`.
  /// Errors: no_space, permission, io.
  OutputFile(const Syscalls& calls, const std::string& path, int64_t size_bytes, bool keep);

  /// Errors: no_space, io.
  void write(std::span<const std::byte> bytes, int64_t offset) const;
  /// Data and size are durable when it returns.
  void sync() const { buffered_.sync(); }
  void close();

 private:
  /// Writes as many whole pages as the direct file takes; gives how many bytes that were.
  size_t write_pages(std::span<const std::byte> bytes, int64_t offset) const;

  File buffered_;
  std::optional<File> direct_;
};

}  // namespace weightloom
