// Files that stand in memory only, beside those of another file seam: whatever reads files reads
// them, so tensors and texts that a program holds are a checkpoint like any other.
//
// A path given here hides what stands there on disk; the folders above it are listed with it. They
// cannot be written, linked, renamed or removed.
// Thread safety: calls may run concurrently; add and add_text must not run beside them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "weightloom/base/export.h"
#include "weightloom/base/syscalls.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// A part of a file: bytes, which are borrowed, or a hole.
struct FilePart {
  std::span<const std::byte> bytes;  ///< none in a hole
  int64_t hole_bytes = 0;            ///< that read as zeros: what stands there is elsewhere
};

/// Files in memory; see the top of this file.
class MemoryFiles {
 public:
  /// Beside the files of `others`, which is borrowed; where those are in memory too, they are all
  /// there by now.
  explicit MemoryFiles(const Syscalls& others = system_calls());
  MemoryFiles(MemoryFiles&&) noexcept;             ///< Leaves the other one unusable.
  MemoryFiles& operator=(MemoryFiles&&) noexcept;  ///< Leaves the other one unusable.
  ~MemoryFiles();

  /// A file made of `parts`, one after another, which are borrowed.
  /// Errors: usage if there is one at that path already.
  void add(const std::string& path, const std::vector<std::span<const std::byte>>& parts);
  /// The same, of which some parts may be holes.
  /// Errors: as add.
  void add_with_holes(const std::string& path, const std::vector<FilePart>& parts);
  /// A file that holds a text.
  /// Errors: as add.
  void add_text(const std::string& path, std::string text);

  /// Keeps a text for as long as this object lives, to be a part of a file.
  std::span<const std::byte> keep(std::string text);

  /// The seam that has these files; lives as long as this object.
  const Syscalls& calls() const noexcept;

 private:
  class Seam;
  std::unique_ptr<Seam> seam_;
};

}  // namespace weightloom
