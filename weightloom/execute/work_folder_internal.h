// The work folder of a conversion, and the one step that puts its result in place.
//
//   .DST.weightloom-work/        beside DST, so that a rename reaches it
//     journal                    journal_internal.h
//     out/                       what becomes DST (for a single file: holds it)
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "weightloom/base/file.h"
#include "weightloom/execute/journal_internal.h"

namespace weightloom {

/// Borrows the Syscalls.
/// Thread safety: none.
class WorkFolder {
 public:
  /// Only names paths; touches nothing. `destination` without a trailing slash.
  WorkFolder(const Syscalls& calls, std::string destination, bool single_file);

  const std::string& destination() const noexcept { return destination_; }
  const std::string& parent() const noexcept { return parent_; }
  const std::string& path() const noexcept { return work_; }
  const std::string& out() const noexcept { return out_; }
  std::string journal_path() const { return join_path(work_, "journal"); }
  bool single_file() const noexcept { return single_file_; }

  /// Takes the work folder for this run alone, until this value goes; false if there is none.
  /// Errors: exists (another run is at work in it, or it is no folder), io.
  bool claim();
  /// Refuses before any work: DST exists and is not to be replaced, is a link, a mount point or of
  /// the wrong kind, or has no name of its own ("..", "/"); its parent is missing or not writable;
  /// the filesystem cannot exchange; another run is at work on it. Makes and claims the work
  /// folder, unless it refuses. Errors: exists, not_found, permission, unsupported, usage, io.
  void prepare(bool overwrite);
  /// Makes an empty out/ and forgets what an earlier run left.
  void start_over();
  bool destination_exists() const;
  /// Device and inode of what publish() will put in place.
  PathIdentity identity() const;
  /// True if DST already is what a journal says was about to be put in place.
  bool is_published(PathIdentity identity) const;
  /// Puts out/ in place of DST in one step, durable when it returns. A DST that was not there when
  /// prepare() looked is never replaced.
  /// Errors: exists, io.
  void publish();
  /// Removes the work folder and the old DST in it; the journal last, so that an interrupted
  /// removal is still known to come after publish().
  void remove();

 private:
  void refuse_nameless_destination() const;
  void refuse_bad_destination(bool overwrite, uint64_t device_of_parent) const;
  void refuse_if_no_exchange() const;
  std::string published_path() const;
  int put_new(const std::string& from) const;
  int replace(const std::string& from) const;

  const Syscalls& calls_;
  std::string destination_;
  std::string parent_;
  std::string work_;
  std::string out_;
  std::optional<File> lock_;
  bool single_file_;
  bool replaces_ = false;  // DST was there when prepare() looked
};

/// Makes the folders below `folder` that a file's relative name goes through ("weights/a" →
/// "weights").
void make_folders_for(const Syscalls& calls, const std::string& folder, const std::string& name);

/// Hard-links every file below `from` into `to` under its relative name, but for those in `skip`
/// (relative names); folders are made. Symbolic links are linked as such; a file that the system
/// refuses to link (another owner's, a filesystem without links) is copied.
void link_tree(const Syscalls& calls, const std::string& from, const std::string& to,
               const std::set<std::string>& skip);

/// Removes every file below `path` but those in `keep` (relative names), and folders left empty.
void prune_tree(const Syscalls& calls, const std::string& path, const std::set<std::string>& keep);

/// Refuses where tensor files of so many bytes, and some small ones beside them, have no room.
/// Errors: no_space, io.
void refuse_full_disk(const Syscalls& calls, const std::string& folder, int64_t needed_bytes);

/// Makes all folders below `path` durable, and it itself.
void sync_tree(const Syscalls& calls, const std::string& path);

}  // namespace weightloom
