#include <cerrno>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "weightloom/base/byte_size.h"
#include "weightloom/execute/side_files_internal.h"
#include "weightloom/execute/work_folder_internal.h"

namespace weightloom {
namespace {

FileStatus look_at(const Syscalls& calls, const std::string& path) {
  const StatResult result = calls.lstat(path);
  if (result.error != 0) throw system_error(-result.error, "look at", path);
  return result.status;
}

FileKind kind_of(const Syscalls& calls, const std::string& path) {
  return look_at(calls, path).kind;
}

bool exists(const Syscalls& calls, const std::string& path) {
  const StatResult result = calls.lstat(path);
  if (result.error == 0) return true;
  if (result.error == -ENOENT) return false;
  throw system_error(-result.error, "look at", path);
}

void require_writable(const Syscalls& calls, const std::string& folder) {
  const int error = calls.access(folder, W_OK | X_OK);
  if (error != 0) throw system_error(-error, "write into", folder);
}

bool is_unsupported(int error) {
  return error == -EINVAL || error == -ENOSYS || error == -EOPNOTSUPP;
}

void link_or_copy(const Syscalls& calls, const std::string& from, const std::string& to,
                  FileKind kind) {
  const int error = calls.link(from, to);
  if (error == 0) return;
  const bool no_links = error == -EPERM || error == -EMLINK || error == -EOPNOTSUPP;
  if (!no_links || kind != FileKind::file) {
    throw system_error(-error, fmt::format("hard-link it as '{}'", to), from);
  }
  copy_file(calls, from, to);
}

void link_below(const Syscalls& calls, const std::string& from, const std::string& to,
                const std::string& prefix, const std::set<std::string>& skip) {
  for (const std::string& name : list_folder(calls, from)) {
    const std::string relative = fmt::format("{}{}", prefix, name);
    const std::string source = join_path(from, name);
    const std::string target = join_path(to, name);
    const FileKind kind = kind_of(calls, source);
    if (skip.contains(relative) && kind != FileKind::folder) continue;
    if (skip.contains(relative)) {
      throw Error(ErrorCode::exists,
                  fmt::format("{}: a folder, where the output has a file of that name", source),
                  "move the folder away, or choose another destination");
    }
    if (kind == FileKind::folder) {
      make_folder(calls, target);
      link_below(calls, source, target, relative + "/", skip);
    } else {
      link_or_copy(calls, source, target, kind);
    }
  }
}

/// True if nothing is left of the folder.
bool prune_below(const Syscalls& calls, const std::string& path, const std::string& prefix,
                 const std::set<std::string>& keep) {
  bool empty = true;
  for (const std::string& name : list_folder(calls, path)) {
    const std::string relative = fmt::format("{}{}", prefix, name);
    const std::string below = join_path(path, name);
    const bool kept = keep.contains(relative) || (kind_of(calls, below) == FileKind::folder &&
                                                  !prune_below(calls, below, relative + "/", keep));
    if (!kept) remove_all(calls, below);
    empty = empty && !kept;
  }
  return empty;
}

}  // namespace

WorkFolder::WorkFolder(const Syscalls& calls, std::string destination, bool single_file)
    : calls_(calls),
      destination_(std::move(destination)),
      parent_(parent_path(destination_)),
      work_(join_path(parent_, fmt::format(".{}.weightloom-work", base_name(destination_)))),
      out_(join_path(work_, "out")),
      single_file_(single_file) {}

bool WorkFolder::destination_exists() const { return exists(calls_, destination_); }

bool WorkFolder::claim() {
  if (lock_) return true;
  if (!exists(calls_, work_)) return false;
  if (kind_of(calls_, work_) != FileKind::folder) {
    throw Error(ErrorCode::exists, fmt::format("{}: is no folder to work in", work_), "remove it");
  }
  for (const std::string& name : list_folder(calls_, work_)) {
    if (name == "out" || name.starts_with("journal") || name.starts_with("probe-")) continue;
    throw Error(ErrorCode::exists,
                fmt::format("{}: holds '{}', which no run put there", work_, name),
                "move that away, or choose another destination");
  }
  File folder = File::open_folder(calls_, work_);
  if (!folder.lock()) {
    throw Error(ErrorCode::exists, fmt::format("{}: another run is writing it", destination_),
                "wait until it ends, or choose another destination");
  }
  const FileStatus locked = folder.status();
  const StatResult now = calls_.lstat(work_);
  // A run that ended meanwhile has removed what is locked here.
  if (now.error != 0 || now.status.inode != locked.inode) return false;
  lock_ = std::move(folder);
  return true;
}

void WorkFolder::prepare(bool overwrite) {
  refuse_nameless_destination();
  const auto parent = status_of(calls_, parent_);
  if (!parent) {
    throw Error(ErrorCode::not_found,
                fmt::format("{}: the folder for the output is not there", parent_),
                fmt::format("make it: mkdir -p '{}'", parent_));
  }
  require_writable(calls_, parent_);
  replaces_ = destination_exists();
  if (replaces_) refuse_bad_destination(overwrite, parent->device);
  while (!claim()) make_folder(calls_, work_);
  if (replaces_ && !single_file_) refuse_if_no_exchange();
}

void WorkFolder::refuse_nameless_destination() const {
  const std::string name = base_name(destination_);
  if (name != "." && name != ".." && name != "/" && !name.empty()) return;
  throw Error(ErrorCode::usage,
              fmt::format("'{}': the output is built beside it, which needs a name", destination_),
              "give the folder by its name, such as ../NAME");
}

void WorkFolder::refuse_bad_destination(bool overwrite, uint64_t device_of_parent) const {
  const FileStatus status = look_at(calls_, destination_);
  if (status.kind == FileKind::link) {
    throw Error(ErrorCode::exists, fmt::format("{}: is a symbolic link", destination_),
                "name the folder or file it leads to");
  }
  if ((status.kind == FileKind::folder) == single_file_) {
    throw Error(ErrorCode::exists,
                fmt::format("{}: is a {}, the output is a {}", destination_,
                            single_file_ ? "folder" : "file", single_file_ ? "file" : "folder"),
                "choose another destination");
  }
  if (status.device != device_of_parent) {
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: is a mount point, which cannot be replaced", destination_),
                "choose a folder inside it");
  }
  const bool empty = !single_file_ && list_folder(calls_, destination_).empty();
  if (!overwrite && !empty) {
    throw Error(ErrorCode::exists, fmt::format("{}: exists", destination_),
                "choose another destination, or replace its checkpoint with --overwrite (other "
                "files in it stay)");
  }
  if (!single_file_) require_writable(calls_, destination_);
}

void WorkFolder::refuse_if_no_exchange() const {
  const std::string a = join_path(work_, "probe-a");
  const std::string b = join_path(work_, "probe-b");
  make_folder(calls_, a);
  make_folder(calls_, b);
  const int error = calls_.exchange(a, b);
  remove_all(calls_, a);
  remove_all(calls_, b);
  if (error == 0) return;
  if (!is_unsupported(error)) throw system_error(-error, "exchange folders in", work_);
  calls_.rmdir(work_);  // unless an earlier run's work is in it
  throw Error(ErrorCode::unsupported,
              fmt::format("{}: this filesystem cannot exchange two folders in one step", parent_),
              "choose a destination that does not exist, then move it yourself");
}

void WorkFolder::start_over() {
  remove_all(calls_, out_);
  remove_all(calls_, journal_path());
  make_folder(calls_, out_);
}

std::string WorkFolder::published_path() const {
  return single_file_ ? join_path(out_, base_name(destination_)) : out_;
}

PathIdentity WorkFolder::identity() const {
  const FileStatus status = look_at(calls_, published_path());
  return {status.device, status.inode};
}

bool WorkFolder::is_published(PathIdentity identity) const {
  const StatResult result = calls_.lstat(destination_);
  return result.error == 0 && PathIdentity(result.status.device, result.status.inode) == identity;
}

void WorkFolder::publish() {
  const std::string from = published_path();
  const int error = replaces_ ? replace(from) : put_new(from);
  if (error != 0) throw system_error(-error, "put in place", destination_);
  sync_folder(calls_, parent_path(from));
  sync_folder(calls_, parent_);
}

int WorkFolder::replace(const std::string& from) const {
  return single_file_ ? calls_.rename(from, destination_) : calls_.exchange(from, destination_);
}

int WorkFolder::put_new(const std::string& from) const {
  const int error = calls_.rename_new(from, destination_);
  if (!is_unsupported(error)) return error;
  return destination_exists() ? -EEXIST : calls_.rename(from, destination_);
}

void WorkFolder::remove() {
  remove_all(calls_, out_);
  remove_all(calls_, work_);
}

void make_folders_for(const Syscalls& calls, const std::string& folder, const std::string& name) {
  for (size_t slash = name.find('/'); slash != std::string::npos;
       slash = name.find('/', slash + 1)) {
    make_folder(calls, join_path(folder, name.substr(0, slash)));
  }
}

void link_tree(const Syscalls& calls, const std::string& from, const std::string& to,
               const std::set<std::string>& skip) {
  link_below(calls, from, to, "", skip);
}

void prune_tree(const Syscalls& calls, const std::string& path, const std::set<std::string>& keep) {
  prune_below(calls, path, "", keep);
}

void sync_tree(const Syscalls& calls, const std::string& path) {
  for (const std::string& name : list_folder(calls, path)) {
    const std::string below = join_path(path, name);
    if (kind_of(calls, below) == FileKind::folder) sync_tree(calls, below);
  }
  sync_folder(calls, path);
}

void refuse_full_disk(const Syscalls& calls, const std::string& folder, int64_t needed_bytes) {
  // Beyond the tensor files: index, record, config, tokenizer, folders.
  constexpr int64_t kSideFileAllowanceBytes = int64_t{1} << 20;
  const int64_t needed = needed_bytes + kSideFileAllowanceBytes;
  const int64_t free = calls.free_bytes(folder);
  if (free < 0) throw system_error(static_cast<int>(-free), "ask the free space of", folder);
  if (free >= needed) return;
  throw Error(ErrorCode::no_space,
              fmt::format("{}: {} bytes ({}) of disk space are free, needed {} bytes ({})", folder,
                          free, format_byte_size(free), needed, format_byte_size(needed)),
              "free space there, or choose a destination on another disk");
}

}  // namespace weightloom
