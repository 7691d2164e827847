#include "weightloom/execute/convert.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "weightloom/base/byte_size.h"
#include "weightloom/base/hash.h"
#include "weightloom/execute/cast_findings_internal.h"
#include "weightloom/execute/config_dtype_internal.h"
#include "weightloom/execute/executor.h"
#include "weightloom/execute/file_sink_internal.h"
#include "weightloom/execute/side_files_internal.h"
#include "weightloom/execute/work_folder_internal.h"
#include "weightloom/plan/cost.h"
#include "weightloom/plan/dump.h"
#include "weightloom/plan/schedule.h"

namespace weightloom {
namespace {

// Beyond the tensor files: index, record, config, tokenizer, folders.
constexpr int64_t kSideFileAllowanceBytes = int64_t{1} << 20;

bool is_single_file(const std::string& destination) {
  return destination.ends_with(".safetensors");
}

std::string without_trailing_slash(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

std::vector<TensorSpec> specs_of(const CopyProgram& program) {
  std::vector<TensorSpec> specs;
  specs.reserve(program.targets().size());
  for (const ProgramTarget& target : program.targets()) {
    specs.push_back({target.name, target.dtype, target.shape});
  }
  return specs;
}

Index index_to_copy(const Syscalls& calls, const std::string& path) {
  if (path.ends_with(".json")) return parse_index(read_whole_file(calls, path), path);
  const Checkpoint like = Checkpoint::open(calls, path);
  if (like.index()) return parse_index(like.index()->second, like.index()->first);
  Index index;
  for (const StoredTensor& tensor : like.tensors()) {
    index.weight_map.emplace_back(tensor.name, like.files()[static_cast<size_t>(tensor.file)].name);
  }
  return index;
}

std::vector<ShardFile> shards_of(const std::vector<OriginalFile>& originals) {
  std::vector<ShardFile> shards;
  for (const OriginalFile& original : originals) {
    shards.push_back({original.name, Header::parse_alone(original.header_json, original.name)});
  }
  return shards;
}

std::string_view fault_of_shard_name(const ShardLayout& layout, const std::string& name) {
  if (name == kProvenanceName) return "the name of the record";
  if (layout.index() && name == layout.index()->first) return "the name of the index";
  return name.ends_with(".safetensors") ? "" : "a name that does not end in .safetensors";
}

/// Refuses a layout whose shards take the names of what convert itself writes beside them, or names
/// that no reader takes for weights.
ShardLayout with_sound_names(ShardLayout layout) {
  for (const ShardFile& file : layout.files()) {
    const std::string_view fault = fault_of_shard_name(layout, file.name);
    if (fault.empty()) continue;
    throw Error(ErrorCode::usage, fmt::format("{}: a shard cannot have {}", file.name, fault),
                "split by size with --max-shard-size, or like another checkpoint with "
                "--layout-from");
  }
  return layout;
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
        layout_(output_layout(calls, conversion, destination, output)),
        limits_(limits_for(run.memory_budget_bytes, run.threads)),
        work_(calls, without_trailing_slash(destination), is_single_file(destination)) {}

  ConvertReport convert() && {
    make_tiles();
    fingerprint_ = fingerprint_of_run();
    std::optional<JournalState> before;
    if (output_.resume && work_.claim()) before = read_journal(calls_, work_.journal_path());
    // A run killed between putting DST in place and clearing up has nothing left to do. If it was
    // another conversion (as it is when DST was its source), its journal says nothing about this
    // one.
    const bool published = before && before->publish && work_.is_published(*before->publish);
    if (published && before->fingerprint == fingerprint_) {
      report_.resumed_bytes = conversion_.program.target_bytes();
      return std::move(*this).finish();
    }
    if (published) before.reset();
    work_.prepare(output_.overwrite);
    run_or_clean_up(before);
    return std::move(*this).finish();
  }

 private:
  void make_tiles() {
    std::vector<Placement> placements;
    for (const TensorPlace& place : layout_.places()) {
      placements.push_back({place.file, place.offset_bytes});
    }
    tiles_ = make_schedule(conversion_.program, placements, limits_);
    const Cost cost = cost_of(conversion_.program, std::span<const Tile>(), limits_, run_.threads);
    report_.bytes_needed = cost.bytes_needed;
    report_.targets = static_cast<int64_t>(conversion_.program.targets().size());
    for (const ShardFile& file : layout_.files()) report_.files.push_back(file.name);
    report_.findings = conversion_.findings;
  }

  void run_or_clean_up(const std::optional<JournalState>& before) {
    try {
      run(before);
    } catch (const Error& error) {
      if (!can_go_on_after(error)) discard_work();
      throw;
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
    write_beside_tensors();
    refuse_unreadable_output();
    put_in_place();
  }

  /// DST is in place: what still goes wrong is told, but is no failure.
  ConvertReport finish() && {
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
    uint64_t state = fnv1a64(dump(conversion_.program));
    for (const ShardFile& file : layout_.files()) {
      state = fnv1a64(file.name, state);
      state = fnv1a64(file.header.json(), state);
    }
    for (const ProgramFile& file : conversion_.program.files()) {
      state = fnv1a64(fmt::format("{} {} {} {}", file.path, file.status.inode,
                                  file.status.size_bytes, file.status.mtime_ns),
                      state);
    }
    return to_hex(fnv1a64(fmt::format("{} {}", limits_.tile_bytes, limits_.worker_bytes), state));
  }

  void start() {
    work_.start_over();
    refuse_full_disk();
    Journal journal = Journal::create(calls_, work_.journal_path(), fingerprint_);
    write_tensors(0, journal);
  }

  /// False if there is nothing to go on from, or a file that the journal counts on is not there.
  bool has_whole_files(const JournalState& state) const {
    if (state.tiles == 0 || state.tiles > std::ssize(tiles_)) return false;
    return std::all_of(layout_.files().begin(), layout_.files().end(), [&](const ShardFile& file) {
      const auto status = status_of(calls_, join_path(work_.out(), file.name));
      return status && status->kind == FileKind::file &&
             status->size_bytes == file.header.file_bytes();
    });
  }

  void resume(const JournalState& state) {
    const auto first = static_cast<size_t>(state.tiles);
    for (const Tile& tile : std::span(tiles_).first(first)) {
      report_.resumed_bytes += tile.size_bytes;
    }
    Journal journal = Journal::resume(calls_, work_.journal_path(), state);
    write_tensors(first, journal);
  }

  void refuse_full_disk() const {
    const int64_t needed = layout_.total_file_bytes() + kSideFileAllowanceBytes;
    const int64_t free = calls_.free_bytes(work_.parent());
    if (free < 0)
      throw system_error(static_cast<int>(-free), "ask the free space of", work_.parent());
    if (free >= needed) return;
    throw Error(
        ErrorCode::no_space,
        fmt::format("{}: {} bytes ({}) of disk space are free, needed {} bytes ({})",
                    work_.parent(), free, format_byte_size(free), needed, format_byte_size(needed)),
        "free space there, or choose a destination on another disk");
  }

  void write_tensors(size_t first, Journal& journal) {
    FileSink sink(calls_, work_.out(), layout_, tiles_, first, journal);
    const RunStatistics done =
        execute(calls_, conversion_.program, tiles_, first, limits_, sink, run_);
    sink.finish();
    report_.bytes_read = done.bytes_read;
    report_.bytes_written = done.bytes_written;
    report_.peak_working_bytes = done.peak_working_bytes;
    for (Finding& finding : cast_findings(conversion_.program, done)) {
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

  /// Side files, then the record, then the index: the last thing that makes a folder a checkpoint.
  void write_beside_tensors() {
    if (work_.single_file()) return;
    const std::set<std::string> shards = shard_names();
    // A resumed run may find links of the earlier one, which must not be written through.
    prune_tree(calls_, work_.out(), shards);
    std::vector<std::string> copied;
    if (!is_same_folder()) copied = side_files_of(calls_, source_);
    const std::optional<std::string> config = changed_config(calls_, source_, conversion_.dtype);
    if (config && is_same_folder()) copied.emplace_back(kConfigName);
    std::erase_if(copied, [&](const std::string& name) { return shards.contains(name); });
    keep_files_of_destination(copied);
    for (const std::string& name : copied) {
      if (config && name == kConfigName) {
        write_whole_file(calls_, join_path(work_.out(), name), *config);
        continue;
      }
      copy_file(calls_, join_path(source_.folder(), name), join_path(work_.out(), name));
    }
    write_whole_file(calls_, join_path(work_.out(), kProvenanceName),
                     format_provenance(conversion_.provenance));
    if (layout_.index()) {
      write_whole_file(calls_, join_path(work_.out(), layout_.index()->first),
                       layout_.index()->second);
    }
  }

  std::set<std::string> shard_names() const {
    std::set<std::string> names;
    for (const ShardFile& file : layout_.files()) names.insert(file.name);
    return names;
  }

  /// True if a reader of the output folder cannot take other weights beside it for part of it.
  bool stands_by_itself() const {
    return layout_.index() || shard_names().contains("model.safetensors");
  }

  bool is_same_folder() const {
    const auto a = status_of(calls_, source_.folder());
    const auto b = status_of(calls_, work_.destination());
    return a && b && a->device == b->device && a->inode == b->inode;
  }

  void keep_files_of_destination(const std::vector<std::string>& copied) {
    if (!work_.destination_exists()) return;
    std::set<std::string> skip = replaced_files(calls_, work_.destination(), stands_by_itself());
    skip.insert(copied.begin(), copied.end());
    skip.merge(shard_names());
    if (layout_.index()) skip.insert(layout_.index()->first);
    link_tree(calls_, work_.destination(), work_.out(), skip);
  }

  /// A record or split made by hand can ask for files that do not make one checkpoint.
  void refuse_unreadable_output() const {
    if (work_.single_file()) return;
    const std::optional<Error> fault = fault_of_output();
    if (!fault) return;
    throw Error(
        ErrorCode::checkpoint,
        fmt::format("{}: these files would not read back: {}", work_.destination(), fault->what()),
        "split by size with --max-shard-size, or like a sound checkpoint with "
        "--layout-from",
        fault->findings());
  }

  std::optional<Error> fault_of_output() const {
    try {
      const Checkpoint made = Checkpoint::open(calls_, work_.out(), run_.threads);
      return std::nullopt;
    } catch (const Error& error) {
      const bool is_of_files =
          error.code() == ErrorCode::format || error.code() == ErrorCode::checkpoint;
      if (!is_of_files) throw;
      return error;
    }
  }

  void put_in_place() {
    sync_tree(calls_, work_.out());
    sync_folder(calls_, work_.path());
    const JournalState state{fingerprint_, std::ssize(tiles_), std::nullopt};
    Journal::resume(calls_, work_.journal_path(), state).record_publish(work_.identity());
    if (run_.stop.stop_requested()) throw Error(ErrorCode::cancelled, "cancelled by the caller");
    work_.publish();
  }

  /// A failed run leaves its work if --resume can go on from there.
  bool can_go_on_after(const Error& error) const {
    if (error.code() == ErrorCode::cancelled) return false;
    return error.code() == ErrorCode::io || error.code() == ErrorCode::exists || output_.resume;
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
  std::string fingerprint_;
  std::vector<Tile> tiles_;
  ConvertReport report_;
};

}  // namespace

ShardLayout output_layout(const Syscalls& calls, const Conversion& conversion,
                          const std::string& destination, const OutputOptions& output) {
  const std::vector<TensorSpec> specs = specs_of(conversion.program);
  if (is_single_file(destination)) {
    return ShardLayout::one_file(specs, base_name(destination), conversion.metadata);
  }
  if (output.layout_from) {
    return with_sound_names(ShardLayout::like_index(
        specs, index_to_copy(calls, *output.layout_from), conversion.metadata));
  }
  if (!conversion.original_files.empty() && !output.max_shard_given) {
    return with_sound_names(ShardLayout::verbatim(specs, shards_of(conversion.original_files),
                                                  conversion.original_index));
  }
  return ShardLayout::by_size(specs, output.max_shard_bytes, conversion.metadata);
}

ConvertReport convert(const Syscalls& calls, const Checkpoint& source, const Conversion& conversion,
                      bool lenient, const std::string& destination, const OutputOptions& output,
                      const RunOptions& run) {
  if (conversion.is_refused(lenient)) throw refusal_of(conversion.findings, lenient);
  return Converter(calls, source, conversion, destination, output, run).convert();
}

}  // namespace weightloom
