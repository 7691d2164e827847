// A new empty folder for one test, removed with all it holds when the test ends.
#pragma once

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "weightloom/base/file.h"

namespace weightloom {

class TemporaryFolder {
 public:
  TemporaryFolder() : TemporaryFolder(::testing::TempDir()) {}
  /// In `parent`, which ends in a slash.
  explicit TemporaryFolder(const std::string& parent) : path_(parent + "weightloom-XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) throw system_error(errno, "make the folder", path_);
  }
  ~TemporaryFolder() {
    try {
      remove_all(system_calls(), path_);
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const noexcept { return path_; }
  std::string operator/(std::string_view name) const { return join_path(path_, name); }

 private:
  std::string path_;
};

/// For tests that make thousands of files: where files live in memory, if the system has such a
/// place.
inline std::string fast_temporary_parent() {
  const std::string memory = "/dev/shm/";
  return system_calls().access(memory, W_OK | X_OK) == 0 ? memory : ::testing::TempDir();
}

}  // namespace weightloom
