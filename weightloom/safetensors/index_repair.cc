#include "weightloom/safetensors/index_repair.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "weightloom/base/file.h"
#include "weightloom/base/quote.h"
#include "weightloom/base/workers.h"
#include "weightloom/safetensors/checkpoint.h"
#include "weightloom/safetensors/folder_internal.h"

namespace weightloom {
namespace {

constexpr std::string_view kDefaultName = "model.safetensors.index.json";
constexpr std::string_view kWholeName = "model.safetensors";

/// Where copies of one tensor stand.
struct Copies {
  std::vector<size_t> files;
  int64_t size_bytes = 0;  // of the copy that counts
  int64_t parameters = 0;
};

class IndexRepairer {
 public:
  IndexRepairer(const Syscalls& calls, const std::string& folder, const IndexRepairOptions& options,
                int threads)
      : calls_(calls), options_(options), threads_(threads) {
    result_.folder = folder;
    while (result_.folder.size() > 1 && result_.folder.back() == '/') result_.folder.pop_back();
  }

  IndexRepair repair() && {
    list_names();
    read_old_index();
    choose();
    read_headers();
    place_tensors();
    find_lost_entries();
    refuse_if_faulty();
    report_unused_files();
    compare_sizes();
    result_.text = make_text();
    return std::move(result_);
  }

 private:
  using Entries = std::map<std::string, std::string, std::less<>>;

  void list_names() {
    const auto status = status_of(calls_, result_.folder);
    if (!status) {
      throw Error(ErrorCode::not_found, fmt::format("{}: there is no such folder", result_.folder));
    }
    if (status->kind != FileKind::folder) {
      throw Error(ErrorCode::usage, fmt::format("{}: not a folder", result_.folder),
                  "give the folder that holds the index and its files");
    }
    names_ = list_folder(calls_, result_.folder);
  }

  std::string path_of(const std::string& name) const { return join_path(result_.folder, name); }

  void read_old_index() {
    std::vector<std::string> indexes;
    std::copy_if(names_.begin(), names_.end(), std::back_inserter(indexes),
                 is_safetensors_index_name);
    result_.name = kDefaultName;
    if (indexes.empty()) return;
    result_.name = choose_files(result_.folder, indexes).index;
    result_.replaces = true;
    try {
      old_text_ = read_whole_file(calls_, path_of(result_.name));
      old_ = parse_index(old_text_, result_.name);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::format) throw;
      report("malformed_index", "", result_.name,
             fmt::format("{}; what it named is not known", error.what()));
    }
    if (old_) entries_ = Entries(old_->weight_map.begin(), old_->weight_map.end());
  }

  void choose() {
    const auto named = files_of_index();
    const bool any_there = std::any_of(named.begin(), named.end(), [&](const std::string& name) {
      return status_of(calls_, path_of(name)).has_value();
    });
    if (any_there) {
      choose_by_index(named);
    } else {
      choose_without_index();
    }
  }

  std::vector<std::string> files_of_index() const {
    std::set<std::string> files;
    for (const auto& [tensor, file] : entries_) files.insert(file);
    return {files.begin(), files.end()};
  }

  void choose_by_index(std::vector<std::string> named) {
    const auto set = numbered_like(names_, named.front());
    const auto in_set = numbered_like(named, named.front());
    result_.files = !set.empty() && in_set.size() == named.size()
                        ? choose_files(result_.folder, set).files
                        : std::move(named);
  }

  void choose_without_index() {
    std::vector<std::string> weights;
    std::copy_if(names_.begin(), names_.end(), std::back_inserter(weights), is_safetensors_name);
    // Without weights it says so.
    result_.files = choose_files(result_.folder, weights.empty() ? others() : weights).files;
    if (result_.files.size() != 1 || result_.files.front() != kWholeName) return;
    throw Error(ErrorCode::checkpoint,
                fmt::format("{}: its checkpoint is one file, {}, which needs no index",
                            result_.folder, kWholeName),
                result_.replaces ? fmt::format("remove {}, whose files are not there", result_.name)
                                 : "nothing is to be done");
  }

  /// All names but those of indexes.
  std::vector<std::string> others() const {
    std::vector<std::string> others;
    std::copy_if(names_.begin(), names_.end(), std::back_inserter(others),
                 [](const std::string& name) { return !is_safetensors_index_name(name); });
    return others;
  }

  void read_headers() {
    headers_.resize(result_.files.size());
    std::vector<std::optional<Error>> errors(headers_.size());
    for_all_items(threads_, headers_.size(), [&](size_t, size_t i) {
      try {
        headers_[i] = Checkpoint::open(calls_, path_of(result_.files[i]));
      } catch (const Error& error) {
        errors[i] = error;
      }
    });
    for (size_t i = 0; i < errors.size(); ++i) {
      if (errors[i]) note_unreadable(result_.files[i], *errors[i]);
    }
  }

  void note_unreadable(const std::string& file, const Error& error) {
    if (error.code() == ErrorCode::format) {
      fault("malformed_header", "", file, error.what(), "fetch or write the file again");
    } else if (error.code() == ErrorCode::not_found) {
      const auto count = std::count_if(entries_.begin(), entries_.end(),
                                       [&](const auto& entry) { return entry.second == file; });
      fault(
          "missing_shard", "", file,
          fmt::format("{}: {} names it for {} tensors, and it is not there", file, result_.name,
                      count),
          fmt::format("fetch it again; to go without, move {} away and call again", result_.name));
    } else {
      throw error;
    }
  }

  void place_tensors() {
    for (size_t i = 0; i < headers_.size(); ++i) {
      if (!headers_[i]) continue;
      for (const StoredTensor& tensor : headers_[i]->tensors()) place(i, tensor);
    }
    for (const auto& [name, copies] : copies_) decide(name, copies);
  }

  void place(size_t file, const StoredTensor& tensor) {
    Copies& copies = copies_[tensor.name];
    copies.files.push_back(file);
    const auto old = entries_.find(tensor.name);
    const bool counts =
        copies.files.size() == 1 || (old != entries_.end() && old->second == result_.files[file]);
    if (!counts) return;
    copies.size_bytes = tensor.size_bytes;
    copies.parameters = elements(tensor.shape);
  }

  void decide(const std::string& name, const Copies& copies) {
    const auto old = entries_.find(name);
    const std::string* chosen = copies.files.size() == 1 ? &file_of(copies, 0) : nullptr;
    for (size_t i = 0; i < copies.files.size() && old != entries_.end(); ++i) {
      if (file_of(copies, i) == old->second) chosen = &file_of(copies, i);
    }
    if (chosen == nullptr) return refuse_duplicate(name, copies);
    new_.weight_map.emplace_back(name, *chosen);
    result_.total_bytes += copies.size_bytes;
    parameters_ += copies.parameters;
    report_change(name, copies, *chosen);
  }

  const std::string& file_of(const Copies& copies, size_t copy) const {
    return result_.files[copies.files[copy]];
  }

  void refuse_duplicate(const std::string& name, const Copies& copies) {
    fault("duplicate_tensor", name, file_of(copies, 1),
          fmt::format("tensor {}: it stands in {} and in {}, and no index says which one counts",
                      quote(name), file_of(copies, 0), file_of(copies, 1)),
          "remove the file that is stale");
  }

  void report_change(const std::string& name, const Copies& copies, const std::string& chosen) {
    const auto old = entries_.find(name);
    for (size_t i = 0; i < copies.files.size(); ++i) {
      if (file_of(copies, i) == chosen) continue;
      report("unindexed_tensor", name, file_of(copies, i),
             fmt::format("{}: tensor {}: a second copy; the index goes on naming {}",
                         file_of(copies, i), quote(name), chosen));
    }
    if (!old_) return;
    if (old == entries_.end()) {
      report("added_entry", name, chosen,
             fmt::format("{}: tensor {}: the index did not list it", chosen, quote(name)));
    } else if (old->second != chosen) {
      report("moved_entry", name, chosen,
             fmt::format("{}: tensor {}: the index placed it in {}", chosen, quote(name),
                         old->second));
    }
  }

  void find_lost_entries() {
    for (const auto& [name, file] : entries_) {
      if (copies_.contains(name) || is_unreadable(file)) continue;
      std::string message = fmt::format(
          "tensor {}: the index places it in {}, but no file holds it", quote(name), file);
      if (options_.drop_missing) {
        report("dropped_entry", name, file, message + "; it is left out");
      } else {
        fault("index_entry_without_tensor", name, file, std::move(message),
              "fetch the files again, or give the tensor up with --drop-missing");
      }
    }
  }

  /// True if the file counts and its own fault is told already.
  bool is_unreadable(const std::string& file) const {
    const auto at = std::find(result_.files.begin(), result_.files.end(), file);
    return at != result_.files.end() && !headers_[static_cast<size_t>(at - result_.files.begin())];
  }

  void report_unused_files() {
    for (const std::string& name : names_) {
      if (!is_safetensors_name(name)) continue;
      if (std::find(result_.files.begin(), result_.files.end(), name) != result_.files.end()) {
        continue;
      }
      report("unused_file", "", name, fmt::format("{}: not part of this checkpoint", name));
    }
  }

  void compare_sizes() {
    result_.tensors = std::ssize(new_.weight_map);
    new_.total_size = result_.total_bytes;
    if (!old_ || old_->total_parameters) new_.total_parameters = parameters_;
    const bool wrong_size = old_ && old_->total_size && *old_->total_size != result_.total_bytes;
    if (wrong_size) {
      report("wrong_total_size", "", result_.name,
             fmt::format("{}: total_size was {}, but the tensors hold {} bytes", result_.name,
                         *old_->total_size, result_.total_bytes));
    }
    const bool wrong_parameters =
        old_ && old_->total_parameters && *old_->total_parameters != parameters_;
    result_.changes = !old_ || wrong_size || wrong_parameters ||
                      Entries(new_.weight_map.begin(), new_.weight_map.end()) != entries_;
  }

  /// The new index, with what else the old one said.
  std::string make_text() const {
    std::string text = format_index(new_);
    if (!old_) return text;
    auto root = nlohmann::json::parse(old_text_);
    auto made = nlohmann::json::parse(text);
    if (root["metadata"].is_null()) root["metadata"] = nlohmann::json::object();
    root["metadata"].update(made["metadata"]);
    root["weight_map"] = std::move(made["weight_map"]);
    return root.dump(2, ' ', true) + "\n";
  }

  void report(std::string code, std::string tensor, std::string file, std::string message) {
    result_.findings.push_back({Severity::report, std::move(code), std::move(tensor),
                                std::move(file), std::move(message)});
  }

  void fault(std::string code, std::string tensor, std::string file, std::string message,
             std::string next_step) {
    if (faults_.empty()) next_step_ = std::move(next_step);
    faults_.push_back(
        {Severity::error, std::move(code), std::move(tensor), std::move(file), std::move(message)});
  }

  void refuse_if_faulty() {
    if (faults_.empty()) return;
    std::string message = fmt::format("{}: {}", result_.folder, faults_.front().message);
    if (faults_.size() > 1) message += fmt::format(" (and {} more)", faults_.size() - 1);
    throw Error(ErrorCode::checkpoint, message, next_step_, std::move(faults_));
  }

  const Syscalls& calls_;
  const IndexRepairOptions& options_;
  int threads_;
  std::vector<std::string> names_;  // in the folder
  std::string old_text_;
  std::optional<Index> old_;                        // nothing: there is none, or it cannot be read
  Entries entries_;                                 // of the old index
  std::vector<std::optional<Checkpoint>> headers_;  // of result_.files
  std::map<std::string, Copies, std::less<>> copies_;
  Index new_;
  int64_t parameters_ = 0;
  std::vector<Finding> faults_;
  std::string next_step_;  // of the first fault
  IndexRepair result_;
};

/// A second name for the old index; a copy where the filesystem has no links.
void keep_old_index(const Syscalls& calls, const std::string& path, const std::string& backup) {
  try {
    hard_link(calls, path, backup);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::exists) {
      // A repair that was killed leaves a backup of the index that still counts.
      if (read_whole_file(calls, backup) == read_whole_file(calls, path)) return;
      throw Error(ErrorCode::exists, fmt::format("{}: it exists, from an earlier repair", backup),
                  "move it away, or remove it");
    }
    write_whole_file(calls, backup, read_whole_file(calls, path));
  }
}

}  // namespace

IndexRepair repair_index(const Syscalls& calls, const std::string& folder,
                         const IndexRepairOptions& options, int threads) {
  return IndexRepairer(calls, folder, options, threads).repair();
}

std::string write_index(const Syscalls& calls, const IndexRepair& repair) {
  const std::string path = join_path(repair.folder, repair.name);
  const std::string fresh = path + ".weightloom-new";
  const std::string backup = repair.replaces ? repair.name + ".bak" : "";
  try {
    write_whole_file(calls, fresh, repair.text);
    if (repair.replaces) keep_old_index(calls, path, join_path(repair.folder, backup));
    rename_path(calls, fresh, path);
  } catch (const Error&) {
    calls.unlink(fresh);
    throw;
  }
  sync_folder(calls, repair.folder);
  return backup;
}

}  // namespace weightloom
