#include <fmt/format.h>

#include "weightloom/comm/agreement.h"
#include "weightloom/comm/shared_folder_internal.h"
#include "weightloom/execute/output_layout.h"

namespace weightloom {
namespace {

std::string without_trailing_slash(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

void refuse_single_file(const std::string& destination) {
  if (!is_single_file(destination)) return;
  throw Error(ErrorCode::usage, fmt::format("{}: a parallel save writes a folder", destination),
              "leave the ending .safetensors out");
}

/// One folder on its way.
class Building {
 public:
  Building(ProcessGroup& group, const Syscalls& calls, const std::string& destination,
           const SharedContent& content)
      : group_(group),
        calls_(calls),
        content_(content),
        work_(calls, without_trailing_slash(destination), false),
        files_(calls, work_.out(), content.layout) {}

  SharedOutcome build() && {
    run_agreed(group_, [&] { refuse_single_file(work_.destination()); });
    try {
      run_agreed(group_, [&] { prepare(); });
      content_.write(files_);
      run_agreed(group_, [&] { files_.finish(); });
      refuse_missing_bytes();
      run_agreed(group_, [&] { complete(); });
      run_agreed(group_, [&] { publish(); });
    } catch (...) {
      discard();
      throw;
    }
    return {files_.bytes_written(), clear_up()};
  }

 private:
  bool leads() const noexcept { return group_.rank() == 0; }

  void prepare() {
    if (!leads()) return;
    work_.prepare(content_.overwrite);
    has_work_ = true;
    work_.start_over();
    refuse_full_disk(calls_, work_.parent(), content_.layout.total_file_bytes());
    files_.create();
  }

  void refuse_missing_bytes() {
    const int64_t all = group_.all_reduce(Reduction::sum, files_.bytes_written());
    if (all == content_.tensor_bytes) return;
    throw Error(ErrorCode::io, fmt::format("{}: the ranks wrote {} bytes of tensors, needed {}",
                                           work_.destination(), all, content_.tensor_bytes));
  }

  void complete() {
    if (!leads()) return;
    content_.complete(work_);
    sync_tree(calls_, work_.out());
    sync_folder(calls_, work_.path());
  }

  void publish() {
    if (leads()) work_.publish();
  }

  void discard() noexcept {
    if (!has_work_) return;
    try {
      work_.remove();
    } catch (const Error&) {
      return;  // the first failure is the one to report; the next save clears the folder
    }
  }

  /// The destination is in place: what still goes wrong is told, but is no failure.
  std::optional<Finding> clear_up() {
    if (!leads()) return std::nullopt;
    try {
      work_.remove();
    } catch (const Error& error) {
      return Finding{Severity::report, "work_folder_left", "", work_.path(), error.what()};
    }
    return std::nullopt;
  }

  ProcessGroup& group_;
  const Syscalls& calls_;
  const SharedContent& content_;
  WorkFolder work_;
  SharedFiles files_;
  bool has_work_ = false;  // this rank claimed the work folder
};

}  // namespace

SharedOutcome build_shared_folder(ProcessGroup& group, const Syscalls& calls,
                                  const std::string& destination, const SharedContent& content) {
  return Building(group, calls, destination, content).build();
}

}  // namespace weightloom
