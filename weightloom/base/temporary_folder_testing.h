// A new empty folder for one test, removed with all it holds when the test ends.
#pragma once

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "weightloom/base/file.h"

namespace weightloom {

class TemporaryFolder {
 public:
  TemporaryFolder() : path_(testing::TempDir() + "weightloom-XXXXXX") {
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

}  // namespace weightloom
