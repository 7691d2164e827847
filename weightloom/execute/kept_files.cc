#include <algorithm>
#include <cerrno>

#include "weightloom/execute/kept_files_internal.h"
#include "weightloom/execute/source_files_internal.h"

namespace weightloom {
namespace {

constexpr int64_t kChunkBytes = int64_t{64} << 20;

/// The source that a target is a plain copy of; nothing if it is anything else.
const ProgramSource* copied_source(const CopyProgram& program, const ProgramTarget& target) {
  if (target.regions.size() != 1 || target.regions.front().is_pad()) return nullptr;
  const Region& region = target.regions.front();
  const ProgramSource& source = program.source_of(region);
  if (source.is_computed()) return nullptr;
  const bool is_byte = region.axes.empty() && target.size_bytes == 1;
  const bool is_run = region.axes.size() == 1 && region.axes.front().target_stride == 1 &&
                      region.axes.front().source_stride == 1 &&
                      region.axes.front().extent == target.size_bytes;
  const bool is_whole = region.source_offset == 0 && region.target_offset == 0 &&
                        (is_byte || is_run) && source.size_bytes == target.size_bytes;
  const bool is_same = source.dtype == target.dtype && source.shape == target.shape;
  return is_whole && is_same ? &source : nullptr;
}

/// Finds the twin of one file: all its tensors must be copies of tensors of one file, each as far
/// from the others as there.
class TwinFinder {
 public:
  TwinFinder(const CopyProgram& program, const Header& header, const Checkpoint& source)
      : program_(program), header_(header), source_(source) {}

  void add(const ProgramTarget& target, const TensorPlace& place) {
    if (target.size_bytes == 0 || !possible_) return;  // a tensor of no bytes is the same anywhere
    const ProgramSource* copied = copied_source(program_, target);
    if (copied == nullptr) {
      possible_ = false;
      return;
    }
    const auto file = static_cast<size_t>(copied->file);
    const int64_t there = copied->offset_bytes - source_.files()[file].header.data_begin_bytes();
    const int64_t here = place.offset_bytes - header_.data_begin_bytes();
    possible_ = there == here && file_.value_or(file) == file;
    file_ = file;
  }

  std::optional<Twin> twin() const {
    if (!possible_ || !file_) return std::nullopt;
    const Header& other = source_.files()[*file_].header;
    if (other.data_bytes() != header_.data_bytes()) return std::nullopt;
    return Twin{*file_, other.json() == header_.json(), other.data_begin_bytes()};
  }

 private:
  const CopyProgram& program_;
  const Header& header_;
  const Checkpoint& source_;
  bool possible_ = true;
  std::optional<size_t> file_;
};

bool cannot_link(int error) {
  return error == -EXDEV || error == -EPERM || error == -EACCES || error == -EMLINK ||
         error == -EOPNOTSUPP || error == -ENOSYS || error == -EINVAL;
}

/// Up to the next block of the source, or a chunk of whole blocks.
int64_t next_step(int64_t source_offset, int64_t left) {
  const int64_t ragged = source_offset % kSharedBlockBytes;
  return std::min(left, ragged == 0 ? kChunkBytes : kSharedBlockBytes - ragged);
}

}  // namespace

std::vector<std::optional<Twin>> find_twins(const CopyProgram& program, const ShardLayout& layout,
                                            const Checkpoint& source) {
  std::vector<TwinFinder> finders;
  for (const ShardFile& file : layout.files()) finders.emplace_back(program, file.header, source);
  for (size_t i = 0; i < program.targets().size(); ++i) {
    const TensorPlace& place = layout.places()[i];
    finders[static_cast<size_t>(place.file)].add(program.targets()[i], place);
  }
  std::vector<std::optional<Twin>> twins;
  for (const TwinFinder& finder : finders) twins.push_back(finder.twin());
  return twins;
}

KernelCopy kernel_copy_on(int64_t filesystem_type) noexcept {
  // Source: statfs(2) and linux/magic.h; OpenZFS's zfs_vfsops.h; bcachefs_format.h.
  switch (static_cast<uint32_t>(filesystem_type)) {
    case 0x9123683E:  // btrfs
    case 0x58465342:  // xfs
    case 0xCA451A4E:  // bcachefs
    case 0x7461636F:  // ocfs2
      return KernelCopy::shares_blocks;
    case 0x6969:      // nfs
    case 0xFE534D42:  // smb2
    case 0xFF534D42:  // cifs
    case 0x517B:      // smb
    case 0x00C36400:  // ceph
    case 0x2FC12FC1:  // zfs: shares records of 128 KiB, which a new header moves
      return KernelCopy::on_server;
    default:
      return KernelCopy::through_memory;
  }
}

bool link_twin(const Syscalls& calls, const ProgramFile& from, const std::string& to) {
  const int error = calls.link_followed(from.path, to);
  if (cannot_link(error)) return false;
  if (error != 0) throw system_error(-error, "hard-link it as '" + to + "'", from.path);
  const File made = File::open_read(calls, to);
  refuse_if_changed(made, from);
  made.sync();  // whoever wrote it may not have waited for the disk
  return true;
}

bool copy_twin(const Syscalls& calls, const File& from, int64_t data_begin_bytes,
               const Header& header, const std::string& to,
               const std::function<void(int64_t)>& moved, const std::stop_token& stop) {
  File target = File::create(calls, to);
  const std::string text = header.bytes();
  target.write_at(std::as_bytes(std::span(text)), 0);
  for (int64_t done = 0; done < header.data_bytes();) {
    if (stop.stop_requested()) throw Error(ErrorCode::cancelled, "cancelled by the caller");
    const int64_t at = data_begin_bytes + done;
    const auto count = target.copy_from(from, at, header.data_begin_bytes() + done,
                                        next_step(at, header.data_bytes() - done));
    if (!count) {
      target.close();
      remove_all(calls, to);
      return false;
    }
    done += *count;
    moved(done);
  }
  target.sync();
  target.close();
  return true;
}

std::string letters_of(std::span<const FileOrigin> origins) {
  std::string letters;
  for (const FileOrigin origin : origins) letters += static_cast<char>(origin);
  return letters;
}

std::optional<std::vector<FileOrigin>> origins_of(std::string_view letters, size_t count) {
  if (letters.size() != count || letters.find_first_not_of("wlc") != letters.npos) {
    return std::nullopt;
  }
  std::vector<FileOrigin> origins;
  for (const char letter : letters) origins.push_back(static_cast<FileOrigin>(letter));
  return origins;
}

}  // namespace weightloom
