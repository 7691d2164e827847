#include "weightloom/plan/expected.h"

#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <simdjson.h>

#include "weightloom/base/error.h"
#include "weightloom/base/file.h"
#include "weightloom/base/quote.h"
#include "weightloom/safetensors/checkpoint.h"

namespace weightloom {
namespace {

using simdjson::dom::element;

/// Reads the JSON forms.
class ExpectedReader {
 public:
  explicit ExpectedReader(std::string path) : path_(std::move(path)) {}

  Expected read(const std::string& json) {
    simdjson::dom::parser parser;
    element root;
    if (const auto error = parser.parse(json).get(root)) {
      refuse(fmt::format("not JSON: {}", simdjson::error_message(error)));
    }
    simdjson::dom::object object;
    if (root.get(object) != simdjson::SUCCESS) refuse("must be a JSON object");
    simdjson::dom::array list;
    for (const char* key : {"targets", "tensors"}) {
      if (object.at_key(key).get(list) != simdjson::SUCCESS) continue;
      for (const element item : list) add_listed(item);
      return std::move(expected_);
    }
    for (const auto [name, value] : object) add(std::string(name), value);
    return std::move(expected_);
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(ErrorCode::format, fmt::format("{}: {}", path_, why),
                R"(write {"NAME": {"dtype": "BF16", "shape": [2, 3]}, …}, or give what )"
                "`weightloom plan --json` printed, or a checkpoint");
  }

  void add_listed(element item) {
    std::string_view name;
    if (item["name"].get(name) != simdjson::SUCCESS) refuse("a tensor of the list has no name");
    add(std::string(name), item);
  }

  void add(std::string name, element value) {
    if (!names_.insert(name).second) refuse(fmt::format("{} stands there twice", quote(name)));
    if (!value.is_object()) {
      refuse(fmt::format("{} must be an object with dtype and shape", quote(name)));
    }
    refuse_unknown_keys(name, value);
    ExpectedTensor tensor;
    tensor.dtype = dtype_of(name, value);
    tensor.shape = shape_of(name, value);
    tensor.name = std::move(name);
    expected_.tensors.push_back(std::move(tensor));
  }

  /// What plan and inspect print beside dtype and shape is let pass; a misspelt key is not.
  void refuse_unknown_keys(const std::string& name, simdjson::dom::object value) const {
    static const std::set<std::string_view> kKnown = {"name",       "dtype", "shape",  "sources",
                                                      "bytes_read", "file",  "offset", "bytes"};
    for (const auto [key, unused] : value) {
      if (!kKnown.contains(key)) {
        refuse(fmt::format("{} has the unknown key {}", quote(name), quote(key)));
      }
    }
  }

  std::optional<DType> dtype_of(const std::string& name, element value) const {
    element text;
    if (value["dtype"].get(text) != simdjson::SUCCESS) return std::nullopt;
    std::string_view word;
    const auto dtype = text.get(word) == simdjson::SUCCESS ? parse_dtype(word) : std::nullopt;
    if (!dtype) refuse(fmt::format("{}: 'dtype' is no dtype of safetensors", quote(name)));
    return dtype;
  }

  std::optional<Shape> shape_of(const std::string& name, element value) const {
    element list;
    if (value["shape"].get(list) != simdjson::SUCCESS) return std::nullopt;
    simdjson::dom::array sizes;
    Shape shape;
    bool sound = list.get(sizes) == simdjson::SUCCESS;
    for (size_t i = 0; sound && i < sizes.size(); ++i) {
      sound = sizes.at(i).get(shape.emplace_back()) == simdjson::SUCCESS && shape.back() >= 0;
    }
    if (!sound) refuse(fmt::format("{}: 'shape' must be a list of sizes", quote(name)));
    return shape;
  }

  std::string path_;
  std::set<std::string> names_;
  Expected expected_;
};

Expected of_checkpoint(const Checkpoint& checkpoint) {
  Expected expected;
  for (const StoredTensor& tensor : checkpoint.tensors()) {
    expected.tensors.push_back({tensor.name, tensor.dtype, tensor.shape});
  }
  return expected;
}

}  // namespace

Expected read_expected(const Syscalls& calls, const std::string& path) {
  if (!path.ends_with(".json")) return of_checkpoint(Checkpoint::open(calls, path));
  return ExpectedReader(path).read(read_whole_file(calls, path));
}

}  // namespace weightloom
