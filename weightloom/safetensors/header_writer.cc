// Header::lay_out: the header that the safetensors package writes.
// Source: huggingface/safetensors 0.8, `prepare` in safetensors/src/tensor.rs.
#include <algorithm>
#include <iterator>
#include <tuple>

#include <fmt/format.h>
#include <simdjson.h>

#include "weightloom/base/checked.h"
#include "weightloom/base/quote.h"
#include "weightloom/safetensors/header.h"
#include "weightloom/safetensors/name_table.h"

namespace weightloom {
namespace {

constexpr int64_t kDataAlignment = 8;

/// A character that JSON requires to be escaped.
void append_escaped(std::string& to, char c) {
  switch (c) {
    case '"':
      to += "\\\"";
      break;
    case '\\':
      to += "\\\\";
      break;
    case '\b':
      to += "\\b";
      break;
    case '\f':
      to += "\\f";
      break;
    case '\n':
      to += "\\n";
      break;
    case '\r':
      to += "\\r";
      break;
    case '\t':
      to += "\\t";
      break;
    default:
      fmt::format_to(std::back_inserter(to), "\\u{:04x}", static_cast<unsigned char>(c));
  }
}

bool is_escaped(char c) { return c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20; }

/// As serde_json writes it: only what JSON requires is escaped, the rest stays UTF-8.
void append_json_string(std::string& to, std::string_view text) {
  to += '"';
  while (true) {
    const auto escaped = std::ranges::find_if(text, is_escaped);
    to.append(text.begin(), escaped);
    if (escaped == text.end()) break;
    append_escaped(to, *escaped);
    text.remove_prefix(static_cast<size_t>(escaped - text.begin()) + 1);
  }
  to += '"';
}

void append_number(std::string& to, int64_t number) {
  const fmt::format_int digits(number);
  to.append(digits.data(), digits.size());
}

void append_metadata(std::string& to, const Metadata& metadata) {
  to += "\"__metadata__\":{";
  for (const auto& [key, value] : metadata) {
    if (&key != &metadata.front().first) to += ',';
    append_json_string(to, key);
    to += ':';
    append_json_string(to, value);
  }
  to += '}';
}

void append_tensor(std::string& to, const HeaderTensor& tensor) {
  append_json_string(to, tensor.name);
  to += R"(:{"dtype":")";
  to += to_string(tensor.dtype);
  to += R"(","shape":[)";
  for (size_t d = 0; d < tensor.shape.size(); ++d) {
    if (d > 0) to += ',';
    append_number(to, tensor.shape[d]);
  }
  to += R"(],"data_offsets":[)";
  append_number(to, tensor.begin_bytes);
  to += ',';
  append_number(to, tensor.end_bytes);
  to += "]}";
}

Error unusable(std::string_view name, std::string_view fault) {
  return Error(ErrorCode::usage, fmt::format("tensor {}: {}", quote(name), fault));
}

bool is_utf8(std::string_view text) { return simdjson::validate_utf8(text.data(), text.size()); }

void check_name(std::string_view name) {
  if (name.empty()) throw unusable(name, "an empty name cannot be written");
  if (name == "__metadata__") throw unusable(name, "the name is reserved for metadata");
  if (name.find('\0') != std::string_view::npos) throw unusable(name, "the name holds a NUL");
  if (!is_utf8(name)) throw unusable(name, "the name is not UTF-8");
}

void check_metadata(const Metadata& metadata) {
  NameTable keys(metadata.size());
  auto key_at = [&](int32_t i) -> std::string_view {
    return metadata[static_cast<size_t>(i)].first;
  };
  for (size_t i = 0; i < metadata.size(); ++i) {
    const auto& [key, value] = metadata[i];
    if (!is_utf8(key) || !is_utf8(value)) {
      throw Error(ErrorCode::usage, fmt::format("metadata {}: not UTF-8", quote(key)));
    }
    if (keys.insert(key, static_cast<int32_t>(i), key_at)) {
      throw Error(ErrorCode::usage, fmt::format("metadata {}: the key is given twice", quote(key)));
    }
  }
}

/// `tensors`: of any type with a name.
template <class Tensors>
void check_names(const Tensors& tensors) {
  NameTable names(tensors.size());
  auto name_at = [&](int32_t i) -> std::string_view {
    return tensors[static_cast<size_t>(i)].name;
  };
  for (size_t i = 0; i < tensors.size(); ++i) {
    check_name(tensors[i].name);
    if (names.insert(tensors[i].name, static_cast<int32_t>(i), name_at)) {
      throw unusable(tensors[i].name, "the name is given twice");
    }
  }
}

int64_t size_of(const TensorSpec& tensor) {
  auto size = checked_bytes(tensor.dtype, tensor.shape);
  if (size) return *size;
  throw unusable(tensor.name, fmt::format("{} {} does not fill whole bytes, or has more than 2^63",
                                          to_string(tensor.dtype), to_string(tensor.shape)));
}

/// One after another from offset 0.
std::vector<HeaderTensor> place(std::vector<TensorSpec> tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorSpec& a, const TensorSpec& b) {
    return std::tie(b.dtype, a.name) < std::tie(a.dtype, b.name);
  });
  std::vector<HeaderTensor> placed;
  placed.reserve(tensors.size());
  int64_t begin = 0;
  for (auto& tensor : tensors) {
    auto end = checked_add(begin, size_of(tensor));
    if (!end) throw unusable(tensor.name, "with it the file would exceed 2^63 bytes");
    placed.push_back({std::move(tensor.name), tensor.dtype, std::move(tensor.shape), begin, *end});
    begin = *end;
  }
  return placed;
}

/// Without padding.
std::string to_json(std::span<const HeaderTensor> tensors, const Metadata& metadata) {
  std::string json = "{";
  if (!metadata.empty()) append_metadata(json, metadata);
  for (const auto& tensor : tensors) {
    if (json.size() > 1) json += ',';
    append_tensor(json, tensor);
  }
  json += '}';
  return json;
}

/// The length prefix is 8 bytes, so padding the JSON aligns the data.
void pad_to(std::string& json, int64_t data_begin_bytes) {
  json.resize(static_cast<size_t>(data_begin_bytes) - sizeof(uint64_t), ' ');
}

int64_t smallest_data_begin(const std::string& json) {
  return round_up(static_cast<int64_t>(sizeof(uint64_t) + json.size()), kDataAlignment);
}

void check_length(const std::string& json, size_t tensors) {
  if (static_cast<int64_t>(json.size()) <= kMaxHeaderBytes) return;
  throw Error(ErrorCode::format,
              fmt::format("the header of {} tensors would be {} bytes, but at most {} are allowed",
                          tensors, json.size(), kMaxHeaderBytes),
              "split the tensors over more files");
}

/// Tensors of no bytes share an offset with a neighbour; tensors() has them in its own order.
void sort_by_place(std::vector<HeaderTensor>& tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const HeaderTensor& a, const HeaderTensor& b) {
    return std::tie(a.begin_bytes, a.end_bytes, a.name) <
           std::tie(b.begin_bytes, b.end_bytes, b.name);
  });
}

}  // namespace

Header Header::lay_out(std::vector<TensorSpec> tensors, Metadata metadata) {
  check_metadata(metadata);
  check_names(tensors);
  Header header;
  header.tensors_ = place(std::move(tensors));
  header.metadata_ = std::move(metadata);
  header.json_ = to_json(header.tensors_, header.metadata_);
  pad_to(header.json_, smallest_data_begin(header.json_));
  if (!header.tensors_.empty()) header.data_bytes_ = header.tensors_.back().end_bytes;
  check_length(header.json_, header.tensors_.size());
  sort_by_place(header.tensors_);
  return header;
}

Header Header::with_names(std::vector<std::string> names, int64_t block_bytes) const {
  Header header = *this;
  for (size_t i = 0; i < names.size(); ++i) header.tensors_[i].name = std::move(names[i]);
  check_names(header.tensors_);
  sort_by_place(header.tensors_);
  header.json_ = to_json(header.tensors_, metadata_);
  const int64_t least = smallest_data_begin(header.json_);
  const int64_t phase = data_begin_bytes() % block_bytes;
  const int64_t shared = least + ((phase - least) % block_bytes + block_bytes) % block_bytes;
  pad_to(header.json_, data_begin_bytes() % kDataAlignment == 0 ? shared : least);
  check_length(header.json_, header.tensors_.size());
  return header;
}

}  // namespace weightloom
