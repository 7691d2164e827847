#include "weightloom/base/unsynced_state_testing.h"

#include <algorithm>
#include <cstdio>

#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "weightloom/base/file.h"

namespace weightloom {
namespace {

int64_t size_of(int fd) {
  struct stat found = {};
  return ::fstat(fd, &found) == 0 ? found.st_size : 0;
}

void write_zeros(int fd, int64_t begin, int64_t end) {
  const std::vector<std::byte> zeros(static_cast<size_t>(std::max<int64_t>(end - begin, 0)));
  for (size_t done = 0; done < zeros.size();) {
    ssize_t count =
        ::pwrite(fd, zeros.data() + done, zeros.size() - done, begin + static_cast<int64_t>(done));
    if (count <= 0) return;
    done += static_cast<size_t>(count);
  }
}

void copy_whole(int from, int to) {
  off_t offset = 0;
  while (::sendfile(to, from, &offset, size_t{1} << 30) > 0) {
  }
}

}  // namespace

OwnedDescriptor::~OwnedDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

UnsyncedState::FileId UnsyncedState::id_of(int fd) {
  struct stat found = {};
  if (::fstat(fd, &found) != 0) return {};
  return {found.st_dev, found.st_ino};
}

void UnsyncedState::will_write(int fd) {
  auto [place, is_new] = files_.try_emplace(id_of(fd));
  if (!is_new) return;
  place->second.file = OwnedDescriptor(::dup(fd));
  place->second.synced_bytes = size_of(fd);
}

void UnsyncedState::did_write(int fd, int64_t offset, int64_t size) {
  auto place = files_.find(id_of(fd));
  if (place != files_.end()) place->second.ranges.emplace_back(offset, size);
}

void UnsyncedState::did_truncate(int fd, int64_t size) {
  auto place = files_.find(id_of(fd));
  if (place == files_.end()) return;
  place->second.synced_bytes = std::min(place->second.synced_bytes, size);
}

void UnsyncedState::did_sync(int fd) {
  FileId id = id_of(fd);
  files_.erase(id);
  for (auto& change : names_) std::erase(change.unsynced_folders, id);
  names_.remove_if([](const NameChange& change) { return change.unsynced_folders.empty(); });
}

KeptEntry UnsyncedState::keep(const std::string& path) {
  KeptEntry kept;
  StatResult found = system_calls().lstat(path);
  if (found.error != 0) return kept;
  kept.kind = found.status.kind;
  if (kept.kind == FileKind::file) {
    kept.content = OwnedDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  }
  if (kept.kind == FileKind::link) kept.target = system_calls().readlink(path).target;
  return kept;
}

UnsyncedState::Entry UnsyncedState::entry_of(const std::string& path) {
  Entry entry;
  entry.folder =
      OwnedDescriptor(::open(parent_path(path).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  entry.folder_id = id_of(entry.folder.get());
  entry.name = base_name(path);
  entry.path = path;
  return entry;
}

void UnsyncedState::record(Change change, Entry from, Entry to, KeptEntry old) {
  std::vector<FileId> folders = {from.folder_id};
  bool two_folders = !to.path.empty() && to.folder_id != from.folder_id;
  if (two_folders) folders.push_back(to.folder_id);
  names_.push_back({change, std::move(from), std::move(to), std::move(old), std::move(folders)});
}

void UnsyncedState::did_create(const std::string& path) {
  record(Change::create, entry_of(path), {}, {});
}

void UnsyncedState::did_remove(const std::string& path, KeptEntry old) {
  record(Change::remove, entry_of(path), {}, std::move(old));
}

void UnsyncedState::did_rename(const std::string& from, const std::string& to, KeptEntry old) {
  record(Change::rename, entry_of(from), entry_of(to), std::move(old));
}

void UnsyncedState::did_exchange(const std::string& a, const std::string& b) {
  record(Change::exchange, entry_of(a), entry_of(b), {});
}

void UnsyncedState::put_back(const Entry& entry, const KeptEntry& old) {
  int folder = entry.folder.get();
  const char* name = entry.name.c_str();
  switch (old.kind) {
    case FileKind::folder:
      if (::mkdirat(folder, name, 0777) != 0) ::mkdir(entry.path.c_str(), 0777);
      return;
    case FileKind::link:
      if (::symlinkat(old.target.c_str(), folder, name) != 0) {
        (void)!::symlink(old.target.c_str(), entry.path.c_str());
      }
      return;
    case FileKind::file: {
      constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
      int fd = ::openat(folder, name, kFlags, 0666);
      if (fd < 0) fd = ::open(entry.path.c_str(), kFlags, 0666);
      OwnedDescriptor file(fd);
      copy_whole(old.content.get(), file.get());
      return;
    }
    case FileKind::other:
      return;
  }
}

void UnsyncedState::undo(const NameChange& change) {
  const Entry& from = change.from;
  const Entry& to = change.to;
  switch (change.change) {
    case Change::create:
      if (::unlinkat(from.folder.get(), from.name.c_str(), 0) != 0) {
        ::unlinkat(from.folder.get(), from.name.c_str(), AT_REMOVEDIR);
      }
      return;
    case Change::remove:
      put_back(from, change.old);
      return;
    case Change::rename:
      ::renameat(to.folder.get(), to.name.c_str(), from.folder.get(), from.name.c_str());
      put_back(to, change.old);
      return;
    case Change::exchange:
      ::renameat2(from.folder.get(), from.name.c_str(), to.folder.get(), to.name.c_str(),
                  RENAME_EXCHANGE);
      return;
  }
}

void UnsyncedState::lose() {
  for (auto& [id, changes] : files_) {
    int fd = changes.file.get();
    int64_t size = std::min(size_of(fd), changes.synced_bytes);
    for (auto [offset, count] : changes.ranges) {
      write_zeros(fd, std::min(offset, size), std::min(offset + count, size));
    }
    (void)!::ftruncate(fd, size);
  }
  files_.clear();
  for (auto change = names_.rbegin(); change != names_.rend(); ++change) undo(*change);
  names_.clear();
}

}  // namespace weightloom
