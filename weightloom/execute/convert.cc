#include "weightloom/execute/convert.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "weightloom/base/hash.h"
#include "weightloom/execute/cast_findings.h"
#include "weightloom/execute/checksums.h"
#include "weightloom/execute/executor.h"
#include "weightloom/execute/file_sink_internal.h"
#include "weightloom/execute/hash_sink_internal.h"
#include "weightloom/execute/output_files_internal.h"
#include "weightloom/execute/output_folder_internal.h"
#include "weightloom/execute/replicas.h"
#include "weightloom/execute/work_folder_internal.h"
#include "weightloom/plan/compile.h"
#include "weightloom/plan/cost.h"
#include "weightloom/plan/schedule.h"

namespace weightloom {
namespace {

std::string without_trailing_slash(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

/// One conversion on its way to disk.
class Converter {
 public:
  Converter(const Syscalls& calls, const Checkpoint& source, const Conversion& conversion,
            const std::string& destination, const OutputOptions& output, const RunOptions& run)
      : calls_(calls),
        source_(source),
        conversion_(conversion),
        output_(output),
        run_(run),
        layout_(output_layout(calls, source, conversion, destination, output)),
        limits_(limits_for(run.memory_budget_bytes, run.threads)),
        work_(calls, without_trailing_slash(destination), is_single_file(destination)),
        files_(calls, conversion.program, layout_, source, work_.out()) {}

  ConvertReport convert() && {
    describe();
    fingerprint_ = fingerprint_of_run();
    std::optional<JournalState> before;
    if (output_.resume && work_.claim()) before = read_journal(calls_, work_.journal_path());
    // A run killed between putting DST in place and clearing up has nothing left to do. If it was
    // another conversion (as it is when DST was its source), its journal says nothing about this
    // one.
    const bool published = before && before->publish && work_.is_published(*before->publish);
    if (published && before->fingerprint == fingerprint_) {
      files_.trust(before->files);
      report_.resumed_bytes = conversion_.program.target_bytes();
      return std::move(*this).finish();
    }
    if (published) before.reset();
    work_.prepare(output_.overwrite);
    run_or_clean_up(before);
    return std::move(*this).finish();
  }

 private:
  void describe() {
    const Cost cost = cost_of(conversion_.program, std::span<const Tile>(), limits_, run_.threads);
    report_.bytes_needed = cost.bytes_needed;
    report_.targets = static_cast<int64_t>(conversion_.program.targets().size());
    report_.target_bytes = conversion_.program.target_bytes();
    for (const ShardFile& file : layout_.files()) report_.files.push_back(file.name);
    report_.findings = conversion_.findings;
  }

  bool is_written(size_t target) const {
    const auto file = static_cast<size_t>(layout_.places()[target].file);
    return files_.origins()[file] == FileOrigin::written;
  }

  /// Cuts the targets of the files that are written.
  void make_tiles() {
    written_.clear();
    part_.reset();
    const auto& targets = conversion_.program.targets();
    std::vector<bool> keep;
    std::vector<Placement> placements;
    for (size_t i = 0; i < targets.size(); ++i) {
      keep.push_back(is_written(i));
      if (!keep.back()) continue;
      written_.push_back(i);
      placements.push_back({layout_.places()[i].file, layout_.places()[i].offset_bytes});
    }
    const bool all = written_.size() == targets.size();
    if (!all) part_ = select_targets(conversion_.program, keep);
    tiles_ = make_schedule(program(), placements, limits_);
  }

  /// The program of what is written.
  const CopyProgram& program() const { return part_ ? *part_ : conversion_.program; }

  void run_or_clean_up(const std::optional<JournalState>& before) {
    try {
      run(before);
    } catch (const Error& error) {
      if (!can_go_on_after(error)) {
        discard_work();
        throw;
      }
      throw Error(error.code(),
                  fmt::format("{}; what is done so far is kept in {}", error.what(), work_.path()),
                  (error.next_step().empty() ? "" : error.next_step() + "; then ") +
                      "go on with --resume, or remove that folder",
                  error.findings());
    } catch (...) {
      discard_work();
      throw;
    }
  }

  void run(const std::optional<JournalState>& before) {
    if (before) refuse_other_run(*before);
    if (before && has_whole_files(*before)) {
      resume(*before);
    } else {
      start();
    }
    if (!work_.single_file()) write_folder();
    put_in_place();
  }

  /// DST is in place: what still goes wrong is told, but is no failure.
  ConvertReport finish() && {
    report_.files_written = files_.count(FileOrigin::written);
    report_.files_linked = files_.count(FileOrigin::linked);
    report_.files_copied = files_.count(FileOrigin::copied);
    try {
      work_.remove();
    } catch (const Error& error) {
      report_.findings.push_back(
          {Severity::report, "work_folder_left", "", work_.path(), error.what()});
    }
    return std::move(report_);
  }

  void refuse_other_run(const JournalState& before) const {
    if (before.fingerprint == fingerprint_) return;
    throw Error(ErrorCode::usage,
                fmt::format("{}: the interrupted run had another source, selection or output",
                            work_.path()),
                "give the same arguments (memory budget and threads too) as the interrupted run, "
                "or start over without --resume");
  }

  /// Names everything that decides which byte goes into which tile.
  std::string fingerprint_of_run() const {
    uint64_t state = digest_of_output(conversion_.program, layout_);
    for (const ProgramFile& file : conversion_.program.files()) {
      state = fnv1a64(fmt::format("{} {} {} {}", file.path, file.status.inode,
                                  file.status.size_bytes, file.status.mtime_ns),
                      state);
    }
    return to_hex(fnv1a64(fmt::format("{} {}{}", limits_.tile_bytes, limits_.worker_bytes,
                                      output_.checksums ? " checksums" : ""),
                          state));
  }

  void start() {
    work_.start_over();
    files_.link();
    refuse_full_disk();
    Journal journal = Journal::create(calls_, work_.journal_path(), fingerprint_);
    if (files_.copy(run_)) refuse_full_disk();
    if (files_.kept_bytes() > 0) sync_tree(calls_, work_.out());
    journal.record_files(letters_of(files_.origins()));
    make_tiles();
    write_tensors(0, journal);
  }

  /// False if there is nothing to go on from, or a file that the journal counts on is not there.
  bool has_whole_files(const JournalState& state) {
    if (!files_.restore(state.files, state.tiles > 0)) return false;
    make_tiles();
    const bool has_some = state.tiles > 0 || files_.kept_bytes() > 0;
    return has_some && state.tiles <= std::ssize(tiles_);
  }

  void resume(const JournalState& state) {
    const auto first = static_cast<size_t>(state.tiles);
    for (const Tile& tile : std::span(tiles_).first(first)) {
      report_.resumed_bytes += tile.made_bytes();
    }
    Journal journal = Journal::resume(calls_, work_.journal_path(), state);
    write_tensors(first, journal);
  }

  void refuse_full_disk() const {
    weightloom::refuse_full_disk(calls_, work_.parent(), files_.disk_bytes());
  }

  void write_tensors(size_t first, Journal& journal) {
    FileSink files(calls_, work_.out(), layout_, files_.origins(), tiles_, first, journal);
    std::optional<HashSink> hashes;
    if (output_.checksums) hashes.emplace(program(), targets_from(first), files);
    TileSink& sink = hashes ? static_cast<TileSink&>(*hashes) : files;
    const RunStatistics done =
        execute(calls_, program(), tiles_, first, limits_, sink, options_with_kept());
    files.finish();
    if (hashes) digests_ = hashes->digests();
    report_.bytes_read = done.bytes_read;
    report_.bytes_written = done.bytes_written;
    report_.peak_working_bytes = done.peak_working_bytes;
    for (Finding& finding : cast_findings(program(), done)) {
      report_.findings.push_back(std::move(finding));
    }
    if (report_.resumed_bytes > 0) tell_uncounted_casts();
  }

  void tell_uncounted_casts() {
    const auto targets = conversion_.program.targets();
    const auto casts = [](const ProgramTarget& target) { return target.has_casts; };
    if (std::none_of(targets.begin(), targets.end(), casts)) return;
    report_.findings.push_back(
        {Severity::report, "casts_not_counted", "", "",
         fmt::format("{} bytes were made by the interrupted run; values that casts made infinite "
                     "there are not counted",
                     report_.resumed_bytes)});
  }

  /// The targets all of whose tiles are made from tile `first` on.
  std::vector<bool> targets_from(size_t first) const {
    std::vector<bool> wanted(written_.size(), true);
    for (const Tile& tile : std::span(tiles_).first(first)) {
      for (const Piece& piece : tile.pieces) wanted[static_cast<size_t>(piece.target)] = false;
    }
    return wanted;
  }

  /// The executor knows only of what it writes.
  RunOptions options_with_kept() const {
    RunOptions options = run_;
    const int64_t kept = files_.kept_bytes();
    if (!run_.progress || kept == 0) return options;
    options.progress = [this, kept](const Progress& progress) {
      run_.progress({progress.bytes_done + kept, progress.bytes_total + kept, progress.tensor});
    };
    return options;
  }

  /// The text of the checksum file. Digests that did not pass by are read from the files made.
  std::string checksums_text() const {
    const auto& targets = conversion_.program.targets();
    std::vector<std::string> all(targets.size());
    for (size_t i = 0; i < written_.size(); ++i) all[written_[i]] = digests_[i];
    std::vector<size_t> unknown;
    std::vector<StoredBytes> stored;
    for (size_t i = 0; i < all.size(); ++i) {
      if (!all[i].empty()) continue;
      const TensorPlace& place = layout_.places()[i];
      unknown.push_back(i);
      stored.push_back({files_.path_of(static_cast<size_t>(place.file)), place.offset_bytes,
                        targets[i].size_bytes});
    }
    const std::vector<std::string> read = digests_of(calls_, stored, run_);
    for (size_t i = 0; i < unknown.size(); ++i) all[unknown[i]] = read[i];
    Checksums checksums;
    for (size_t i = 0; i < all.size(); ++i) checksums.emplace(targets[i].name, all[i]);
    return format_checksums(checksums);
  }

  void write_folder() {
    OutputFolder folder{calls_,       source_,     conversion_.provenance,
                        layout_,      work_,       conversion_.config,
                        std::nullopt, std::nullopt};
    if (conversion_.manifest) folder.manifest = format_manifest(*conversion_.manifest);
    if (output_.checksums) folder.checksums = checksums_text();
    folder.write_beside_tensors();
    refuse_if_unreadable(calls_, work_, run_.threads);
    if (auto finding = folder.not_copied()) report_.findings.push_back(*std::move(finding));
  }

  void put_in_place() {
    sync_tree(calls_, work_.out());
    sync_folder(calls_, work_.path());
    const JournalState state{fingerprint_, letters_of(files_.origins()), std::ssize(tiles_),
                             std::nullopt};
    Journal::resume(calls_, work_.journal_path(), state).record_publish(work_.identity());
    if (run_.stop.stop_requested()) throw Error(ErrorCode::cancelled, "cancelled by the caller");
    work_.publish();
  }

  /// A failed run leaves its work if --resume can go on from there and has something to go on from.
  bool can_go_on_after(const Error& error) const noexcept {
    if (error.code() == ErrorCode::cancelled) return false;
    const bool may_pass = error.code() == ErrorCode::io || error.code() == ErrorCode::exists;
    if (!may_pass && !output_.resume) return false;
    try {
      const auto state = read_journal(calls_, work_.journal_path());
      return state && (state->tiles > 0 || state->files.find('c') != std::string::npos);
    } catch (const Error&) {
      return true;  // who knows
    }
  }

  void discard_work() noexcept {
    try {
      work_.remove();
    } catch (const Error&) {
      return;  // the first failure is the one to report; the next run clears the folder
    }
  }

  const Syscalls& calls_;
  const Checkpoint& source_;
  const Conversion& conversion_;
  const OutputOptions& output_;
  const RunOptions& run_;
  ShardLayout layout_;
  ScheduleLimits limits_;
  WorkFolder work_;
  OutputFiles files_;
  std::string fingerprint_;
  std::vector<size_t> written_;       // targets in files that are written
  std::optional<CopyProgram> part_;   // of these, if they are not all
  std::vector<Tile> tiles_;           // of these
  std::vector<std::string> digests_;  // of these, where asked for
  ConvertReport report_;
};

}  // namespace

ConvertReport convert(const Syscalls& calls, const Checkpoint& source, const Conversion& conversion,
                      bool lenient, const std::string& destination, const OutputOptions& output,
                      const RunOptions& run) {
  if (conversion.is_refused(lenient)) throw refusal_of(conversion.findings, lenient);
  if (output.checksums && conversion.manifest) {
    throw Error(ErrorCode::usage, "checksums are of whole tensors, and a sharded folder has parts",
                "leave --checksums out");
  }
  if (output.checksums && is_single_file(destination)) {
    throw Error(ErrorCode::usage,
                fmt::format("{}: is one file, and checksums stand in a file beside the tensors",
                            destination),
                "give a folder, or leave --checksums out");
  }
  if (output.compare_replicas) {
    refuse_differing_replicas(calls, source, conversion.replicas, run);
  }
  return Converter(calls, source, conversion, destination, output, run).convert();
}

int64_t disk_bytes_needed(const Syscalls& calls, const Checkpoint& source,
                          const Conversion& conversion, const std::string& destination,
                          const OutputOptions& output) {
  const ShardLayout layout = output_layout(calls, source, conversion, destination, output);
  std::vector<FileOrigin> origins;
  for (const std::optional<Twin>& twin : find_twins(conversion.program, layout, source)) {
    origins.push_back(twin && twin->same_header ? FileOrigin::linked : FileOrigin::written);
  }
  return disk_bytes_of(layout, origins, KernelCopy::through_memory);
}

}  // namespace weightloom
