// The journal of a conversion: how far a run came, so that a later one can continue.
//
//   weightloom.journal/1 FINGERPRINT   names the program, the headers, the sources and the tiles
//   files lwc                          how each file comes about (kept_files_internal.h);
//                                      what is not written is whole and durable
//   tiles 120                          all tiles before 120 are written and durable
//   publish DEVICE INODE               what was about to be put in place
//
// A last line without its newline is ignored: the run was killed while writing it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "weightloom/base/file.h"

namespace weightloom {

/// Device and inode of what is published.
using PathIdentity = std::pair<uint64_t, uint64_t>;

struct JournalState {
  std::string fingerprint;
  std::string files;  // letters; "" before that is known
  int64_t tiles = 0;
  std::optional<PathIdentity> publish;
};

/// Thread safety: none; the caller serialises.
class Journal {
 public:
  /// A new journal, replacing what is there.
  static Journal create(const Syscalls& calls, const std::string& path,
                        const std::string& fingerprint);
  /// Continues the journal at `path`, which read_journal gave `state` of.
  static Journal resume(const Syscalls& calls, const std::string& path, const JournalState& state);

  /// Call only when the files that are not written are whole and durable. Durable when it returns,
  /// if there are any.
  void record_files(const std::string& letters);
  /// Call only when the data of these tiles is durable.
  void record_tiles(int64_t tiles);
  /// Durable when it returns.
  void record_publish(PathIdentity identity);

 private:
  explicit Journal(File file, int64_t end) : file_(std::move(file)), end_(end) {}
  void append(const std::string& line);

  File file_;
  int64_t end_;
};

/// Nothing if there is no journal, or it is none of ours.
std::optional<JournalState> read_journal(const Syscalls& calls, const std::string& path);

}  // namespace weightloom
