#include "weightloom/execute/convert.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "weightloom/base/byte_size.h"
#include "weightloom/base/hash.h"
#include "weightloom/execute/executor.h"
#include "weightloom/execute/file_sink.h"
#include "weightloom/execute/side_files.h"
#include "weightloom/execute/work_folder.h"
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
    work_.prepare(output_.overwrite);
    try {
      run();
    } catch (const Error& error) {
      clean_up_after(error);
      throw;
    }
    return std::move(report_);
  }

 private:
  void make_tiles() {
    std::vector<Placement> placements;
    for (const TensorPlace& place : layout_.places()) {
      placements.push_back({place.file, place.offset_bytes});
    }
    tiles_ = make_schedule(conversion_.program, placements, limits_);
    const Cost cost = cost_of(conversion_.program, {}, limits_, run_.threads);
    report_.bytes_needed = cost.bytes_needed;
    report_.targets = static_cast<int64_t>(conversion_.program.targets().size());
    for (const ShardFile& file : layout_.files()) report_.files.push_back(file.name);
    report_.findings = conversion_.findings;
  }

  void run() {
    const std::string fingerprint = fingerprint_of_run();
    const auto before = read_journal(calls_, work_.journal_path());
    if (output_.resume && before) {
      refuse_other_run(*before, fingerprint);
      if (before->publish && work_.is_published(*before->publish)) return work_.remove();
      resume(*before);
    } else {
      start(fingerprint);
    }
    write_beside_tensors();
    put_in_place();
  }

  void refuse_other_run(const JournalState& before, const std::string& fingerprint) const {
    if (before.fingerprint == fingerprint) return;
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

  void start(const std::string& fingerprint) {
    work_.start_over();
    refuse_full_disk();
    Journal journal = Journal::create(calls_, work_.journal_path(), fingerprint);
    write_tensors(0, journal);
  }

  void resume(const JournalState& state) {
    make_folder(calls_, work_.out());
    const auto first = std::min(static_cast<size_t>(state.tiles), tiles_.size());
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
  }

  /// Side files, then the record, then the index: the last thing that makes a folder a checkpoint.
  void write_beside_tensors() {
    if (work_.single_file()) return;
    remove_unfinished_side_files();
    std::vector<std::string> copied;
    if (!is_same_folder()) copied = side_files_of(calls_, source_);
    keep_files_of_destination(copied);
    for (const std::string& name : copied) {
      copy_file(calls_, join_path(source_.folder(), name), join_path(work_.out(), name));
    }
    write_whole_file(calls_, join_path(work_.out(), kProvenanceName),
                     format_provenance(conversion_.provenance));
    if (layout_.index()) {
      write_whole_file(calls_, join_path(work_.out(), layout_.index()->first),
                       layout_.index()->second);
    }
  }

  /// A resumed run may find links of the earlier one, which must not be written through.
  void remove_unfinished_side_files() {
    std::set<std::string> shards;
    for (const ShardFile& file : layout_.files()) {
      shards.insert(file.name.substr(0, file.name.find('/')));
    }
    for (const std::string& name : list_folder(calls_, work_.out())) {
      if (!shards.contains(name)) remove_all(calls_, join_path(work_.out(), name));
    }
  }

  bool is_same_folder() const {
    const auto a = status_of(calls_, source_.folder());
    const auto b = status_of(calls_, work_.destination());
    return a && b && a->device == b->device && a->inode == b->inode;
  }

  void keep_files_of_destination(const std::vector<std::string>& copied) {
    if (!work_.destination_exists()) return;
    std::set<std::string> skip = replaced_files(calls_, work_.destination());
    skip.insert(copied.begin(), copied.end());
    for (const ShardFile& file : layout_.files()) skip.insert(file.name);
    if (layout_.index()) skip.insert(layout_.index()->first);
    link_tree(calls_, work_.destination(), work_.out(), skip);
  }

  void put_in_place() {
    sync_tree(calls_, work_.out());
    sync_folder(calls_, work_.path());
    const auto state = read_journal(calls_, work_.journal_path());
    Journal::resume(calls_, work_.journal_path(), *state).record_publish(work_.identity());
    if (run_.stop.stop_requested()) throw Error(ErrorCode::cancelled, "cancelled by the caller");
    work_.publish();
    work_.remove();
  }

  /// What a failed run leaves: its work, if it can go on from there.
  void clean_up_after(const Error& error) {
    const bool keep = error.code() == ErrorCode::io || output_.resume;
    if (keep && error.code() != ErrorCode::cancelled) return;
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
    return ShardLayout::like_index(specs, index_to_copy(calls, *output.layout_from),
                                   conversion.metadata);
  }
  if (!conversion.original_files.empty() && !output.max_shard_given) {
    return ShardLayout::verbatim(specs, shards_of(conversion.original_files),
                                 conversion.original_index);
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
