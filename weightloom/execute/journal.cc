#include <span>
#include <sstream>
#include <string_view>

#include <fmt/format.h>

#include "weightloom/execute/journal_internal.h"

namespace weightloom {
namespace {

constexpr std::string_view kFormat = "weightloom.journal/1";

std::string first_line(const std::string& fingerprint) {
  return fmt::format("{} {}\n", kFormat, fingerprint);
}

std::string files_line(const std::string& letters) {
  return letters.empty() ? "" : fmt::format("files {}\n", letters);
}

std::string text_of(const JournalState& state) {
  return first_line(state.fingerprint) + files_line(state.files) +
         fmt::format("tiles {}\n", state.tiles);
}

void write_text(const File& file, std::string_view text, int64_t offset) {
  file.write_at(std::as_bytes(std::span(text)), offset);
}

/// Takes in one whole line after the first; what is no line of ours says nothing.
void read_line(const std::string& line, JournalState& state) {
  std::istringstream words(line);
  std::string verb;
  words >> verb;
  if (std::string files; verb == "files" && words >> files && words.eof()) state.files = files;
  if (int64_t tiles = 0; verb == "tiles" && words >> tiles && words.eof() && tiles >= 0) {
    state.tiles = tiles;
  }
  if (PathIdentity id; verb == "publish" && words >> id.first >> id.second && words.eof()) {
    state.publish = id;
  }
}

}  // namespace

Journal Journal::create(const Syscalls& calls, const std::string& path,
                        const std::string& fingerprint) {
  Journal journal(File::create(calls, path), 0);
  journal.append(first_line(fingerprint));
  journal.file_.sync();
  return journal;
}

Journal Journal::resume(const Syscalls& calls, const std::string& path, const JournalState& state) {
  // Written anew, so that a torn last line cannot join the next one.
  const std::string text = text_of(state);
  File file = File::open_write(calls, path);
  write_text(file, text, 0);
  file.truncate(static_cast<int64_t>(text.size()));
  file.sync();
  return Journal(std::move(file), static_cast<int64_t>(text.size()));
}

void Journal::record_files(const std::string& letters) {
  append(files_line(letters));
  if (letters.find_first_not_of('w') != std::string::npos) file_.sync();
}

void Journal::record_tiles(int64_t tiles) { append(fmt::format("tiles {}\n", tiles)); }

void Journal::record_publish(PathIdentity identity) {
  append(fmt::format("publish {} {}\n", identity.first, identity.second));
  file_.sync();
}

void Journal::append(const std::string& line) {
  write_text(file_, line, end_);
  end_ += static_cast<int64_t>(line.size());
}

std::optional<JournalState> read_journal(const Syscalls& calls, const std::string& path) {
  if (!status_of(calls, path)) return std::nullopt;
  std::string text = read_whole_file(calls, path);
  text.resize(text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n'));
  std::istringstream lines(text);
  std::string format;
  JournalState state;
  lines >> format >> state.fingerprint;
  if (format != kFormat || state.fingerprint.empty()) return std::nullopt;
  for (std::string line; std::getline(lines, line);) read_line(line, state);
  return state;
}

}  // namespace weightloom
