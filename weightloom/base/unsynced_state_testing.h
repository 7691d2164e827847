// What a simulated power cut would lose: bytes of files and entries of folders changed since the
// last sync. Part of FaultSyscalls; works on the operating system itself. Not thread safe.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "weightloom/base/syscalls.h"

namespace weightloom {

/// A descriptor of its own; closes itself.
class OwnedDescriptor {
 public:
  OwnedDescriptor() noexcept = default;
  explicit OwnedDescriptor(int fd) noexcept : fd_(fd) {}
  OwnedDescriptor(OwnedDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OwnedDescriptor& operator=(OwnedDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  OwnedDescriptor(const OwnedDescriptor&) = delete;
  OwnedDescriptor& operator=(const OwnedDescriptor&) = delete;
  ~OwnedDescriptor();
  int get() const noexcept { return fd_; }

 private:
  int fd_ = -1;
};

/// What stands under a name, kept so that it can be put back after the name is gone.
struct KeptEntry {
  FileKind kind = FileKind::other;  // other: nothing was there
  OwnedDescriptor content;          // of a file
  std::string target;               // of a link
};

class UnsyncedState {
 public:
  /// To call before bytes of `fd` change.
  void will_write(int fd);
  void did_write(int fd, int64_t offset, int64_t size);
  void did_truncate(int fd, int64_t size);
  /// A file's bytes, or a folder's entries, are durable now.
  void did_sync(int fd);

  static KeptEntry keep(const std::string& path);
  void did_create(const std::string& path);
  void did_remove(const std::string& path, KeptEntry old);
  void did_rename(const std::string& from, const std::string& to, KeptEntry old);
  void did_exchange(const std::string& a, const std::string& b);

  /// Undoes all that is not durable, the newest first.
  void lose();

 private:
  using FileId = std::pair<uint64_t, uint64_t>;  // device, inode

  struct FileChanges {
    OwnedDescriptor file;
    int64_t synced_bytes = 0;
    std::vector<std::pair<int64_t, int64_t>> ranges;  // offset, size
  };

  /// A name in a folder: by the folder's descriptor, so that moving the folder does not matter, and
  /// by path, for a folder that is itself put back.
  struct Entry {
    OwnedDescriptor folder;
    FileId folder_id;
    std::string name;
    std::string path;
  };

  enum class Change { create, remove, rename, exchange };

  struct NameChange {
    Change change;
    Entry from;
    Entry to;  // of rename and exchange
    KeptEntry old;
    std::vector<FileId> unsynced_folders;
  };

  static FileId id_of(int fd);
  static Entry entry_of(const std::string& path);
  void record(Change change, Entry from, Entry to, KeptEntry old);
  static void undo(const NameChange& change);
  static void put_back(const Entry& entry, const KeptEntry& old);

  std::map<FileId, FileChanges> files_;
  std::list<NameChange> names_;
};

}  // namespace weightloom
