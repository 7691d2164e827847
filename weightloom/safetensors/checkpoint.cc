#include "weightloom/safetensors/checkpoint.h"

#include <algorithm>
#include <set>
#include <span>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightloom/base/quote.h"
#include "weightloom/base/workers.h"
#include "weightloom/safetensors/folder_internal.h"
#include "weightloom/safetensors/index_match_internal.h"

namespace weightloom {
namespace {

constexpr size_t kNamesShown = 3;

std::string without_trailing_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

/// Why there is nothing at `path`: it does not exist, or it is a link to nothing.
std::string describe_absence(const Syscalls& calls, const std::string& path) {
  auto link = calls.readlink(path);
  if (link.error != 0) return "there is no such file";
  return fmt::format("it is a link to {}, which does not exist", quote(link.target));
}

/// A file's header, or why there is none.
struct FileRead {
  std::optional<CheckpointFile> file;
  bool is_absent = false;
  std::optional<Error> malformed;
};

FileRead read_header(const Syscalls& calls, const std::string& path, const std::string& name) {
  FileRead read;
  auto status = status_of(calls, path);
  if (!status) {
    read.is_absent = true;
    return read;
  }
  try {
    // Opening a pipe or a device could wait for ever, so its kind is checked before.
    if (status->kind != FileKind::file) {
      throw Error(ErrorCode::format, fmt::format("{}: not a regular file", name));
    }
    File file = File::open_read(calls, path);
    Header header = Header::read(file, name);
    read.file = CheckpointFile{name, path, file.status(), std::move(header)};
  } catch (const Error& error) {
    if (error.code() != ErrorCode::format) throw;
    read.malformed = error;
  }
  return read;
}

using Entries = std::vector<size_t>;  // places in the index

struct Fault {
  Finding finding;
  ErrorCode code = ErrorCode::checkpoint;
  std::string next_step;
};

}  // namespace

class CheckpointBuilder {
 public:
  CheckpointBuilder(const Syscalls& calls, const std::string& path, int threads)
      : calls_(calls), threads_(threads) {
    result_.path_ = without_trailing_slashes(path);
  }

  Checkpoint build() {
    locate();
    read_headers();
    if (entries_) {
      take_indexed_tensors();
    } else {
      take_all_tensors();
    }
    if (!result_.is_single_file_) report_unused_files();
    refuse_if_faulty();
    for (const auto& tensor : result_.tensors_) result_.data_bytes_ += tensor.size_bytes;
    if (entries_) check_total_size();
    return std::move(result_);
  }

 private:
  /// Finds out what the path is, and which files to read.
  void locate() {
    const std::string& path = result_.path_;
    auto status = status_of(calls_, path);
    if (!status) {
      throw Error(ErrorCode::not_found, fmt::format("{}: {}", path, describe_absence(calls_, path)),
                  "give a .safetensors file, a folder that holds some, or an index");
    }
    if (status->kind == FileKind::folder) {
      locate_in_folder();
      return;
    }
    result_.folder_ = parent_path(path);
    std::string name = base_name(path);
    if (is_pickle_name(name)) throw refuse_pickle(path, name);
    if (name.ends_with(".json")) {
      read_index(name);
      return;
    }
    result_.is_single_file_ = true;
    names_ = {name};
  }

  void locate_in_folder() {
    result_.folder_ = result_.path_;
    auto choice = choose_files(result_.path_, list_folder(calls_, result_.path_));
    result_.is_sharded_ = choice.is_sharded;
    if (choice.index.empty()) {
      names_ = std::move(choice.files);
    } else {
      read_index(choice.index);
    }
  }

  void read_index(const std::string& name) {
    result_.index_.emplace(name, read_whole_file(calls_, path_of(name)));
    Index index = parse_index(result_.index_->second, name);
    total_size_ = index.total_size;
    entries_.emplace(std::move(index));
    names_ = entries_->shards;
    auto pickle = std::find_if(names_.begin(), names_.end(), is_pickle_name);
    if (pickle != names_.end()) throw refuse_pickle(path_of(name), *pickle);
  }

  std::string path_of(const std::string& name) const {
    return result_.is_single_file_ ? result_.path_ : join_path(result_.folder_, name);
  }

  void read_headers() {
    reads_.resize(names_.size());
    for_all_items(threads_, names_.size(), [&](size_t, size_t i) {
      reads_[i] = read_header(calls_, path_of(names_[i]), names_[i]);
    });
    const std::vector<Entries> entries = entries_by_file();
    for (size_t i = 0; i < names_.size(); ++i) note_unreadable(i, entries[i]);
  }

  /// For each file, which entries of the index name it; empty without an index.
  std::vector<Entries> entries_by_file() const {
    std::vector<Entries> entries(names_.size());
    const size_t count = entries_ ? entries_->shard_of.size() : 0;
    for (size_t i = 0; i < count; ++i) {
      entries[static_cast<size_t>(entries_->shard_of[i])].push_back(i);
    }
    return entries;
  }

  void note_unreadable(size_t i, const Entries& entries) {
    const auto& read = reads_[i];
    if (read.malformed) {
      faults_.push_back(
          {{Severity::error, "malformed_header", "", names_[i], read.malformed->what()},
           ErrorCode::format,
           read.malformed->next_step()});
    }
    if (read.is_absent) {
      faults_.push_back(
          {{Severity::error, "missing_shard", "", names_[i], missing_shard(i, entries)},
           ErrorCode::checkpoint,
           "fetch the file again; an interrupted download leaves such gaps"});
    }
  }

  std::string missing_shard(size_t shard, const Entries& entries) const {
    auto absence = describe_absence(calls_, path_of(names_[shard]));
    if (!entries_) return fmt::format("{}: {}", names_[shard], absence);
    std::vector<std::string> shown;
    for (size_t entry : std::span(entries).first(std::min(entries.size(), kNamesShown))) {
      shown.push_back(quote(entries_->names[entry]));
    }
    if (entries.size() > kNamesShown) shown.push_back("…");
    return fmt::format("{}: the index places {} tensor{} there ({}), but {}", names_[shard],
                       entries.size(), entries.size() == 1 ? "" : "s", fmt::join(shown, ", "),
                       absence);
  }

  void take_indexed_tensors() {
    std::vector<const CheckpointFile*> files;
    for (const auto& read : reads_) files.push_back(read.file ? &*read.file : nullptr);
    auto match = match_index(*entries_, files, threads_);
    result_.tensors_ = std::move(match.tensors);
    for (size_t i = 0; i < result_.tensors_.size(); ++i) {
      result_.tensors_[i].name = std::move(entries_->names[i]);
    }
    result_.lookup_ = std::move(entries_->lookup);
    result_.findings_ = std::move(match.reports);
    for (auto& finding : match.faults) {
      faults_.push_back(
          {std::move(finding), ErrorCode::checkpoint, "fetch index and shards of one version"});
    }
  }

  void take_all_tensors() {
    auto& tensors = result_.tensors_;
    for (size_t i = 0; i < reads_.size(); ++i) {
      if (!reads_[i].file) continue;
      const Header& header = reads_[i].file->header;
      for (const auto& t : header.tensors()) {
        tensors.push_back({t.name, t.dtype, t.shape, static_cast<int32_t>(i),
                           header.data_begin_bytes() + t.begin_bytes, t.end_bytes - t.begin_bytes});
      }
    }
    std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
      return std::tie(a.name, a.file) < std::tie(b.name, b.file);
    });
    result_.lookup_ = NameTable(tensors.size());
    auto name_at = [&](int32_t i) -> std::string_view {
      return tensors[static_cast<size_t>(i)].name;
    };
    for (size_t i = 0; i < tensors.size(); ++i) {
      auto first = result_.lookup_.insert(tensors[i].name, static_cast<int32_t>(i), name_at);
      if (first && !result_.is_sharded_)
        note_duplicate(tensors[static_cast<size_t>(*first)], tensors[i]);
    }
  }

  void note_duplicate(const StoredTensor& first, const StoredTensor& second) {
    const auto& first_file = names_[static_cast<size_t>(first.file)];
    const auto& second_file = names_[static_cast<size_t>(second.file)];
    faults_.push_back(
        {{Severity::error, "duplicate_tensor", second.name, second_file,
          fmt::format("tensor {}: it stands in {} and in {}, and no index says which one counts",
                      quote(second.name), first_file, second_file)},
         ErrorCode::checkpoint,
         "remove the file that is stale, or write an index that names the right one"});
  }

  void report_unused_files() {
    std::set<std::string_view> used(names_.begin(), names_.end());
    if (result_.index_) used.insert(result_.index_->first);
    for (const auto& name : list_folder(calls_, result_.folder_)) {
      bool is_candidate = is_safetensors_name(name) || is_safetensors_index_name(name);
      if (!is_candidate || used.contains(name)) continue;
      result_.findings_.push_back({Severity::report, "unused_file", "", name,
                                   fmt::format("{}: not part of this checkpoint", name)});
    }
  }

  void check_total_size() {
    if (!total_size_ || *total_size_ == result_.data_bytes_) return;
    const auto& name = result_.index_->first;
    result_.findings_.push_back({Severity::report, "wrong_total_size", "", name,
                                 fmt::format("{}: total_size is {}, but the tensors hold {} bytes",
                                             name, *total_size_, result_.data_bytes_)});
  }

  /// Throws all faults as one Error; without any, hands over the files.
  void refuse_if_faulty() {
    if (faults_.empty()) {
      for (auto& read : reads_) result_.files_.push_back(std::move(*read.file));
      return;
    }
    bool all_malformed = std::all_of(faults_.begin(), faults_.end(), [](const Fault& fault) {
      return fault.code == ErrorCode::format;
    });
    auto message = faults_.front().finding.message;
    if (faults_.size() > 1) message += fmt::format(" (and {} more)", faults_.size() - 1);
    if (!result_.is_single_file_) message = fmt::format("{}: {}", result_.path_, message);
    auto next_step = faults_.front().next_step;
    std::vector<Finding> findings;
    for (auto& fault : faults_) findings.push_back(std::move(fault.finding));
    throw Error(all_malformed ? ErrorCode::format : ErrorCode::checkpoint, message,
                std::move(next_step), std::move(findings));
  }

  const Syscalls& calls_;
  int threads_;
  std::vector<std::string> names_;  // the files to read
  std::vector<FileRead> reads_;     // of names_
  std::optional<IndexEntries> entries_;
  std::optional<int64_t> total_size_;
  std::vector<Fault> faults_;
  Checkpoint result_;
};

Checkpoint Checkpoint::open(const Syscalls& calls, const std::string& path, int threads) {
  return CheckpointBuilder(calls, path, threads).build();
}

const StoredTensor* Checkpoint::find(std::string_view name) const noexcept {
  auto at = lookup_.find(
      name, [&](int32_t i) -> std::string_view { return tensors_[static_cast<size_t>(i)].name; });
  return at ? &tensors_[static_cast<size_t>(*at)] : nullptr;
}

}  // namespace weightloom
