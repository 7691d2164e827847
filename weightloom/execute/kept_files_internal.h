// Files of an output that need not be written, because the source has their bytes: the same file,
// which gets a hard link, or the same data under another header, which the kernel copies where the
// filesystem shares blocks or copies by itself.
//
// Where it does not (ext4, tmpfs, overlays), a kernel copy goes through the page cache and is
// slower than the executor, which writes past it; such files are written.
// Thread safety: values; the functions may run concurrently for different files.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "weightloom/base/file.h"
#include "weightloom/plan/program.h"
#include "weightloom/safetensors/checkpoint.h"
#include "weightloom/safetensors/shard_layout.h"

namespace weightloom {

/// How a file of an output comes about.
enum class FileOrigin : char { written = 'w', linked = 'l', copied = 'c' };

/// The file of the source that has a file's data section.
struct Twin {
  size_t file = 0;  // into Checkpoint::files()
  bool same_header = false;
  int64_t data_begin_bytes = 0;  // in the source's file
};

/// Per file of `layout`, its twin in `source`, which `program` was planned from, if it has one.
std::vector<std::optional<Twin>> find_twins(const CopyProgram& program, const ShardLayout& layout,
                                            const Checkpoint& source);

/// What a filesystem does when the kernel copies between two of its files.
enum class KernelCopy { through_memory, on_server, shares_blocks };
/// Of the filesystem of this f_type (statfs(2)).
KernelCopy kernel_copy_on(int64_t filesystem_type) noexcept;

/// Makes `to` a hard link of a source file, of the file itself where its name is a symbolic link,
/// with durable data. False where the system refuses: another filesystem, one without links, too
/// many links, another owner's file.
/// Errors: checkpoint if the file is no longer the one whose header was read; io, no_space.
bool link_twin(const Syscalls& calls, const ProgramFile& from, const std::string& to);

/// Makes `to` of `header` and the data that follow byte `data_begin_bytes` of `from`, durable.
/// `moved` is told how many bytes of data there are so far. False, with nothing left at `to`, where
/// the kernel does not copy between the two.
/// Errors: cancelled, no_space, io, also if `from` ends before.
bool copy_twin(const Syscalls& calls, const File& from, int64_t data_begin_bytes,
               const Header& header, const std::string& to,
               const std::function<void(int64_t)>& moved, const std::stop_token& stop);

/// One letter per file, for the journal.
std::string letters_of(std::span<const FileOrigin> origins);
/// Nothing if `letters` are not of `count` files.
std::optional<std::vector<FileOrigin>> origins_of(std::string_view letters, size_t count);

}  // namespace weightloom
