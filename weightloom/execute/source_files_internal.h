// The source files of a program, each opened once, when first read.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "weightloom/base/file.h"
#include "weightloom/plan/program.h"

namespace weightloom {

/// Errors: checkpoint if `opened` is no longer the file whose header was read.
void refuse_if_changed(const File& opened, const ProgramFile& file);

/// Thread safety: get may be called concurrently. Borrows the Syscalls and the files.
class SourceFiles {
 public:
  SourceFiles(const Syscalls& calls, std::span<const ProgramFile> files);

  /// Errors: not_found, io; checkpoint if the file is no longer the one whose header was read.
  const File& get(int32_t index);

 private:
  const Syscalls& calls_;
  std::span<const ProgramFile> files_;
  std::mutex mutex_;
  std::vector<std::optional<File>> open_;
};

}  // namespace weightloom
