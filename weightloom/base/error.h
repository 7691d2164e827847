// What ends an operation (Error) and what a check found (Finding).
// Thread safety: values. Library code throws Error and nothing else of its own.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "weightloom/base/export.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// How much a finding weighs. `error`: refused before anything is written. `strict`: an error
/// unless the caller is lenient. `report`: told, never changes an exit code.
enum class Severity { error, strict, report };

/// One fact that a check found. `code` is a stable snake_case word ("missing_source"); `tensor` and
/// `file` are empty when the fact has none; `message` is a whole sentence with names and numbers.
struct Finding {
  Severity severity = Severity::error;  ///< how much it weighs
  std::string code;                     ///< a stable word
  std::string tensor;                   ///< its name, or ""
  std::string file;                     ///< its name, or ""
  std::string message;                  ///< a whole sentence

  friend bool operator==(const Finding&, const Finding&) = default;
};

/// What kind of failure.
enum class ErrorCode {
  usage,        ///< an option or argument makes no sense
  format,       ///< a file is not what its format says (header, index, JSON)
  checkpoint,   ///< the files are well formed but do not make one checkpoint
  mapping,      ///< a mapping is wrong or unknown
  plan,         ///< the plan has error findings
  not_found,    ///< a path or name does not exist
  exists,       ///< the destination exists and may not be replaced
  permission,   ///< the system refused access
  no_space,     ///< the disk, quota or file size limit is too small
  io,           ///< the system failed a read or write
  cancelled,    ///< the caller asked to stop
  unsupported,  ///< well formed, but outside what this release does
};

/// "usage", "format", … : the spelling of a code in JSON.
std::string_view to_string(ErrorCode code);
/// "error", "strict", "report".
std::string_view to_string(Severity severity);

/// The one exception type. what() is the sentence: where, what, found, needed.
class Error : public std::runtime_error {
 public:
  /// `message` is a sentence; `next_step` a clause that tells what to do.
  Error(ErrorCode code, const std::string& message, std::string next_step = "",
        std::vector<Finding> findings = {});

  /// What kind of failure.
  ErrorCode code() const noexcept { return code_; }
  /// What the user can do about it; empty when there is nothing better than the sentence itself.
  const std::string& next_step() const noexcept { return next_step_; }
  /// All that was found wrong.
  const std::vector<Finding>& findings() const noexcept { return findings_; }

 private:
  ErrorCode code_;
  std::string next_step_;
  std::vector<Finding> findings_;
};

}  // namespace weightloom
