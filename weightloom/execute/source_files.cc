#include <fmt/format.h>

#include "weightloom/execute/source_files_internal.h"

namespace weightloom {
void refuse_if_changed(const File& opened, const ProgramFile& file) {
  const FileStatus now = opened.status();
  if (now.size_bytes == file.status.size_bytes && now.mtime_ns == file.status.mtime_ns &&
      now.inode == file.status.inode) {
    return;
  }
  throw Error(ErrorCode::checkpoint,
              fmt::format("{}: changed since its header was read ({} bytes then, {} now)",
                          file.path, file.status.size_bytes, now.size_bytes),
              "let whatever writes it finish, then run again");
}

namespace {

File open_unchanged(const Syscalls& calls, const ProgramFile& file) {
  File opened = File::open_read(calls, file.path);
  refuse_if_changed(opened, file);
  return opened;
}

}  // namespace

SourceFiles::SourceFiles(const Syscalls& calls, std::span<const ProgramFile> files)
    : calls_(calls), files_(files), open_(files.size()) {}

const File& SourceFiles::get(int32_t index) {
  const auto i = static_cast<size_t>(index);
  const std::lock_guard lock(mutex_);
  if (!open_[i]) open_[i] = open_unchanged(calls_, files_[i]);
  return *open_[i];
}

}  // namespace weightloom
