#include <algorithm>
#include <utility>

#include "weightloom/base/hash.h"
#include "weightloom/execute/output_files_internal.h"
#include "weightloom/execute/source_files_internal.h"
#include "weightloom/execute/work_folder_internal.h"
#include "weightloom/plan/dump.h"

namespace weightloom {
namespace {

bool is_same_file(const FileStatus& a, const FileStatus& b) {
  return a.device == b.device && a.inode == b.inode;
}

}  // namespace

uint64_t digest_of_output(const CopyProgram& program, const ShardLayout& layout) {
  uint64_t state = fnv1a64(dump(program));
  for (const ShardFile& file : layout.files()) {
    state = fnv1a64(file.name, state);
    state = fnv1a64(file.header.json(), state);
  }
  return state;
}

int64_t disk_bytes_of(const ShardLayout& layout, std::span<const FileOrigin> origins,
                      KernelCopy kernel_copy) {
  int64_t bytes = 0;
  for (size_t i = 0; i < origins.size(); ++i) {
    const Header& header = layout.files()[i].header;
    if (origins[i] == FileOrigin::linked) continue;
    const bool shares =
        origins[i] == FileOrigin::copied && kernel_copy == KernelCopy::shares_blocks;
    bytes += shares ? header.data_begin_bytes() + kSharedBlockBytes : header.file_bytes();
  }
  return bytes;
}

OutputFiles::OutputFiles(const Syscalls& calls, const CopyProgram& program,
                         const ShardLayout& layout, const Checkpoint& source, std::string folder)
    : calls_(calls),
      program_(program),
      layout_(layout),
      folder_(std::move(folder)),
      twins_(find_twins(program, layout, source)),
      origins_(layout.files().size(), FileOrigin::written) {}

int64_t OutputFiles::count(FileOrigin origin) const noexcept {
  return std::ranges::count(origins_, origin);
}

std::string OutputFiles::path_of(size_t file) const {
  return join_path(folder_, layout_.files()[file].name);
}

int64_t OutputFiles::kept_bytes() const noexcept {
  int64_t bytes = 0;
  for (size_t i = 0; i < origins_.size(); ++i) {
    if (origins_[i] != FileOrigin::written) bytes += layout_.files()[i].header.data_bytes();
  }
  return bytes;
}

int64_t OutputFiles::disk_bytes() const {
  std::vector<FileOrigin> expected = origins_;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (is_worth_copying(i)) expected[i] = FileOrigin::copied;
  }
  return disk_bytes_of(layout_, expected, kernel_copy_);
}

const ProgramFile& OutputFiles::source_of(size_t file) const {
  return program_.files()[twins_[file]->file];
}

void OutputFiles::link() {
  origins_.assign(layout_.files().size(), FileOrigin::written);
  for (size_t i = 0; i < twins_.size(); ++i) {
    if (!twins_[i] || !twins_[i]->same_header) continue;
    make_folders_for(calls_, folder_, layout_.files()[i].name);
    if (link_twin(calls_, source_of(i), path_of(i))) origins_[i] = FileOrigin::linked;
  }
  // A filesystem that does not say what it is gets no kernel copies, and nothing is lost.
  kernel_copy_ = kernel_copy_on(calls_.filesystem_type(folder_));
}

/// True if the kernel moves a file's data better than the executor would.
bool OutputFiles::is_worth_copying(size_t file) const {
  if (!twins_[file] || origins_[file] != FileOrigin::written) return false;
  const int64_t shift =
      twins_[file]->data_begin_bytes - layout_.files()[file].header.data_begin_bytes();
  switch (kernel_copy_) {
    case KernelCopy::through_memory:
      return false;
    case KernelCopy::on_server:
      return true;
    case KernelCopy::shares_blocks:
      return shift % kSharedBlockBytes == 0;
  }
  __builtin_unreachable();
}

bool OutputFiles::copy(const RunOptions& run) {
  SourceFiles sources(calls_, program_.files());
  tell(run, 0, "");
  bool refused = false;
  for (size_t i = 0; i < twins_.size(); ++i) {
    if (!is_worth_copying(i)) continue;
    const File& from = sources.get(static_cast<int32_t>(twins_[i]->file));
    if (!copy_one(i, from, run)) {
      twins_[i].reset();
      refused = true;
    }
  }
  return refused;
}

bool OutputFiles::copy_one(size_t file, const File& from, const RunOptions& run) {
  const ShardFile& shard = layout_.files()[file];
  make_folders_for(calls_, folder_, shard.name);
  const auto moved = [&](int64_t bytes) { tell(run, bytes, shard.name); };
  if (!copy_twin(calls_, from, twins_[file]->data_begin_bytes, shard.header, path_of(file), moved,
                 run.stop)) {
    return false;
  }
  origins_[file] = FileOrigin::copied;
  return true;
}

void OutputFiles::tell(const RunOptions& run, int64_t more_bytes, std::string_view file) const {
  const int64_t done = kept_bytes() + more_bytes;
  if (run.progress && done > 0) run.progress({done, program_.target_bytes(), file});
}

bool OutputFiles::restore(std::string_view letters, bool has_begun) {
  const auto origins = origins_of(letters, layout_.files().size());
  if (!origins) return false;
  for (size_t i = 0; i < origins->size(); ++i) {
    if (!is_whole(i, (*origins)[i], has_begun)) return false;
  }
  origins_ = *origins;
  return true;
}

/// A link must be of its twin, and what is to be written must be no file of the source.
bool OutputFiles::is_whole(size_t file, FileOrigin origin, bool has_begun) const {
  const auto status = status_of(calls_, path_of(file));
  const bool may_be_absent = origin == FileOrigin::written && !has_begun;
  if (!status) return may_be_absent;
  if (status->kind != FileKind::file) return false;
  if (origin == FileOrigin::linked) {
    return twins_[file] && is_same_file(*status, source_of(file).status);
  }
  const bool has_size = status->size_bytes == layout_.files()[file].header.file_bytes();
  return !is_a_source(*status) && (has_size || may_be_absent);
}

bool OutputFiles::is_a_source(const FileStatus& status) const {
  return std::ranges::any_of(program_.files(), [&](const ProgramFile& source) {
    return is_same_file(status, source.status);
  });
}

void OutputFiles::trust(std::string_view letters) {
  if (auto origins = origins_of(letters, layout_.files().size())) origins_ = *std::move(origins);
}

}  // namespace weightloom
