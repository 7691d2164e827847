#include "weightloom/execute/work_folder.h"

#include <cerrno>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

namespace weightloom {
namespace {

FileKind kind_of(const Syscalls& calls, const std::string& path) {
  const StatResult result = calls.lstat(path);
  if (result.error != 0) throw system_error(-result.error, "look at", path);
  return result.status.kind;
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

void link_below(const Syscalls& calls, const std::string& from, const std::string& to,
                const std::string& prefix, const std::set<std::string>& skip) {
  for (const std::string& name : list_folder(calls, from)) {
    const std::string relative = fmt::format("{}{}", prefix, name);
    if (skip.contains(relative)) continue;
    const std::string source = join_path(from, name);
    const std::string target = join_path(to, name);
    if (kind_of(calls, source) == FileKind::folder) {
      make_folder(calls, target);
      link_below(calls, source, target, relative + "/", skip);
    } else {
      hard_link(calls, source, target);
    }
  }
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

void WorkFolder::prepare(bool overwrite) {
  if (!status_of(calls_, parent_)) {
    throw Error(ErrorCode::not_found,
                fmt::format("{}: the folder for the output is not there", parent_),
                fmt::format("make it: mkdir -p '{}'", parent_));
  }
  require_writable(calls_, parent_);
  if (destination_exists()) refuse_bad_destination(overwrite);
  make_folder(calls_, work_);
  if (destination_exists() && !single_file_) refuse_if_no_exchange();
}

void WorkFolder::refuse_bad_destination(bool overwrite) const {
  const FileKind kind = kind_of(calls_, destination_);
  if (kind == FileKind::link) {
    throw Error(ErrorCode::exists, fmt::format("{}: is a symbolic link", destination_),
                "name the folder or file it leads to");
  }
  if ((kind == FileKind::folder) == single_file_) {
    throw Error(ErrorCode::exists,
                fmt::format("{}: is a {}, the output is a {}", destination_,
                            single_file_ ? "folder" : "file", single_file_ ? "file" : "folder"),
                "choose another destination");
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
  if (error != -EINVAL && error != -ENOSYS && error != -EOPNOTSUPP) {
    throw system_error(-error, "exchange folders in", work_);
  }
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
  const StatResult result = calls_.lstat(published_path());
  if (result.error != 0) throw system_error(-result.error, "look at", published_path());
  return {result.status.device, result.status.inode};
}

bool WorkFolder::is_published(PathIdentity identity) const {
  const StatResult result = calls_.lstat(destination_);
  return result.error == 0 && PathIdentity(result.status.device, result.status.inode) == identity;
}

void WorkFolder::publish() {
  const std::string from = published_path();
  if (single_file_) {
    rename_path(calls_, from, destination_);
  } else {
    const bool there = destination_exists();
    const int error =
        there ? calls_.exchange(from, destination_) : calls_.rename_new(from, destination_);
    if (error != 0) throw system_error(-error, "put in place", destination_);
  }
  sync_folder(calls_, parent_);
}

void WorkFolder::remove() { remove_all(calls_, work_); }

void link_tree(const Syscalls& calls, const std::string& from, const std::string& to,
               const std::set<std::string>& skip) {
  link_below(calls, from, to, "", skip);
}

void sync_tree(const Syscalls& calls, const std::string& path) {
  for (const std::string& name : list_folder(calls, path)) {
    const std::string below = join_path(path, name);
    if (kind_of(calls, below) == FileKind::folder) sync_tree(calls, below);
  }
  sync_folder(calls, path);
}

}  // namespace weightloom
