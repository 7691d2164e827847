#include <algorithm>
#include <array>
#include <vector>

#include "weightloom/base/file.h"
#include "weightloom/execute/config_edit_internal.h"

namespace weightloom {
namespace {

constexpr std::string_view kTorchPrefix = "torch.";
constexpr std::array<std::string_view, 7> kFloatNames = {"float64", "double", "float32", "float",
                                                         "float16", "half",   "bfloat16"};

std::string_view torch_name(DType dtype) {
  if (dtype == DType::F64) return "float64";
  if (dtype == DType::F32) return "float32";
  return dtype == DType::F16 ? "float16" : "bfloat16";
}

/// Walks a JSON text once and copies it, with other values where they are to change. Of the grammar
/// it needs to know strings, brackets and which strings are keys.
class DTypeEdit {
 public:
  DTypeEdit(std::string_view json, DType dtype) : json_(json), dtype_(dtype) {}

  std::string run() && {
    for (size_t at = 0; at < json_.size();) {
      const char c = json_[at];
      if (c == '"') {
        at = take_string(at);
        continue;
      }
      if (c == '{' || c == '[') open_.push_back({c == '{', std::move(key_)});
      if ((c == '}' || c == ']') && !open_.empty()) open_.pop_back();
      if (c != ':' && c != ' ' && c != '\n' && c != '\t' && c != '\r') key_.clear();
      out_ += c;
      ++at;
    }
    return std::move(out_);
  }

 private:
  struct Open {
    bool is_object;
    std::string key;  // under which it stands
  };

  /// Copies the string that begins at `at`, as a key, or as a value that may change; gives its end.
  size_t take_string(size_t at) {
    size_t end = at + 1;
    while (end < json_.size() && json_[end] != '"') end += json_[end] == '\\' ? 2 : 1;
    const std::string_view text = json_.substr(at + 1, std::min(end, json_.size()) - at - 1);
    const bool is_key = !open_.empty() && open_.back().is_object && key_.empty();
    out_ += '"';
    if (is_key) {
      key_ = text;
      out_ += text;
    } else {
      out_ += is_dtype() ? changed(text) : std::string(text);
      key_.clear();
    }
    if (end < json_.size()) out_ += '"';
    return std::min(end + 1, json_.size());
  }

  /// True if the value at hand says what type a model's tensors have.
  bool is_dtype() const {
    if (key_ != "dtype" && key_ != "torch_dtype") return false;
    return std::none_of(open_.begin(), open_.end(),
                        [](const Open& open) { return open.key == "quantization_config"; });
  }

  std::string changed(std::string_view text) const {
    const bool prefixed = text.starts_with(kTorchPrefix);
    const std::string_view name = prefixed ? text.substr(kTorchPrefix.size()) : text;
    if (std::ranges::find(kFloatNames, name) == kFloatNames.end()) return std::string(text);
    return std::string(prefixed ? kTorchPrefix : "") + std::string(torch_name(dtype_));
  }

  std::string_view json_;
  DType dtype_;
  std::string out_;
  std::string key_;  // of the value that follows; "" where none does
  std::vector<Open> open_;
};

}  // namespace

std::string config_with_dtype(std::string_view json, DType dtype) {
  return DTypeEdit(json, dtype).run();
}

std::optional<std::string> changed_config(const Syscalls& calls, const Checkpoint& source,
                                          const ConfigChanges& changes) {
  const std::string path = join_path(source.folder(), std::string(kConfigName));
  if (source.is_single_file() || !status_of(calls, path)) return std::nullopt;
  const std::string text = read_whole_file(calls, path);
  std::string changed = changes.dtype ? config_with_dtype(text, *changes.dtype) : text;
  if (!changes.modules.empty()) {
    const auto rename = [&](std::string_view module) { return renamed_module(changes, module); };
    changed = renamed_modules(changed, rename).text;
  }
  if (changes.dequantised) changed = config_without_quantisation(changed);
  if (!changes.quantisation.empty()) {
    changed = config_with_quantisation(changed, changes.quantisation);
  }
  if (changed == text) return std::nullopt;
  return changed;
}

}  // namespace weightloom
