// The tensor files of an output that is being built: which are links or copies of the source's, and
// which are left for the executor to write.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weightloom/execute/kept_files_internal.h"
#include "weightloom/execute/progress.h"
#include "weightloom/plan/program.h"

namespace weightloom {

/// Stands for everything that decides which byte of which source goes where in which file.
uint64_t digest_of_output(const CopyProgram& program, const ShardLayout& layout);

/// Bytes of disk space for files of these origins.
int64_t disk_bytes_of(const ShardLayout& layout, std::span<const FileOrigin> origins,
                      KernelCopy kernel_copy);

/// Borrows all it is given.
/// Thread safety: none.
class OutputFiles {
 public:
  /// Files of `layout` in `folder`, all to be written as yet. `program` was planned from `source`.
  OutputFiles(const Syscalls& calls, const CopyProgram& program, const ShardLayout& layout,
              const Checkpoint& source, std::string folder);

  std::span<const FileOrigin> origins() const noexcept { return origins_; }
  int64_t count(FileOrigin origin) const noexcept;
  std::string path_of(size_t file) const;
  /// Data of the files that are not written.
  int64_t kept_bytes() const noexcept;
  /// Bytes of disk space that is needed beyond what is linked.
  int64_t disk_bytes() const;

  /// Links what is a file of the source, and finds out what the kernel can be asked to copy.
  /// Errors: checkpoint, io, no_space.
  void link();
  /// Lets the kernel copy. True if it refused a file, which is then left to be written.
  /// Errors: checkpoint, cancelled, io, no_space.
  bool copy(const RunOptions& run);
  /// Takes over what an earlier run made, by the letters of its journal. False if it is not all
  /// there; `has_begun`: what is written has all its bytes reserved.
  bool restore(std::string_view letters, bool has_begun);
  /// Takes the letters' word for it.
  void trust(std::string_view letters);

 private:
  const ProgramFile& source_of(size_t file) const;
  bool is_worth_copying(size_t file) const;
  bool copy_one(size_t file, const File& from, const RunOptions& run);
  void tell(const RunOptions& run, int64_t more_bytes, std::string_view file) const;
  bool is_whole(size_t file, FileOrigin origin, bool has_begun) const;
  bool is_a_source(const FileStatus& status) const;

  const Syscalls& calls_;
  const CopyProgram& program_;
  const ShardLayout& layout_;
  std::string folder_;
  std::vector<std::optional<Twin>> twins_;
  std::vector<FileOrigin> origins_;
  KernelCopy kernel_copy_ = KernelCopy::through_memory;
};

}  // namespace weightloom
