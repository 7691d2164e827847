#include "weightloom/safetensors/header.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <tuple>

#include <fmt/format.h>

#include "weightloom/base/quote.h"
#include "weightloom/safetensors/json_text_internal.h"
#include "weightloom/safetensors/name_table.h"

namespace weightloom {
namespace {

static_assert(kSpareBytes >= simdjson::SIMDJSON_PADDING);
static_assert(std::endian::native == std::endian::little, "the format is little-endian");

using simdjson::dom::element;

/// Builds refusals that name the file, and the tensor where there is one.
class Refusal {
 public:
  explicit Refusal(std::string_view file) : file_(file) {}

  Error of_file(std::string_view fault, std::string next_step = "") const {
    return Error(ErrorCode::format, fmt::format("{}: {}", file_, fault), std::move(next_step));
  }
  Error of_tensor(std::string_view name, std::string_view fault) const {
    return of_file(fmt::format("tensor {}: {}", quote(name), fault));
  }

 private:
  std::string_view file_;
};

Metadata parse_metadata(element value, const Refusal& refusal) {
  if (value.is_null()) return {};
  simdjson::dom::object entries;
  if (value.get(entries)) {
    throw refusal.of_file(
        fmt::format("__metadata__ is {}, but an object of strings is needed", kind_of(value)));
  }
  Metadata metadata;
  for (auto [key, entry] : entries) {
    std::string_view text;
    if (entry.get(text)) {
      throw refusal.of_file(fmt::format("__metadata__ entry {} is {}, but a string is needed",
                                        quote(key), kind_of(entry)));
    }
    metadata.emplace_back(key, text);
  }
  NameTable keys(metadata.size());
  auto key_at = [&](int32_t i) -> std::string_view {
    return metadata[static_cast<size_t>(i)].first;
  };
  for (size_t i = 0; i < metadata.size(); ++i) {
    if (keys.insert(metadata[i].first, static_cast<int32_t>(i), key_at)) {
      throw refusal.of_file(
          fmt::format("__metadata__ has the key {} twice", quote(metadata[i].first)));
    }
  }
  return metadata;
}

/// The parts of one tensor's entry, in whatever order the file has them.
class EntryParser {
 public:
  EntryParser(std::string_view name, const Refusal& refusal) : name_(name), refusal_(refusal) {}

  HeaderTensor parse(element value) {
    simdjson::dom::object fields;
    if (value.get(fields)) throw fault("the entry is {}, but an object is needed", kind_of(value));
    for (auto [key, field] : fields) parse_field(key, field);
    require(has_dtype_, "dtype");
    require(has_shape_, "shape");
    require(has_offsets_, "data_offsets");
    check_size();
    tensor_.name = name_;
    return std::move(tensor_);
  }

 private:
  template <class... Args>
  Error fault(fmt::format_string<Args...> format, Args&&... args) const {
    return refusal_.of_tensor(name_, fmt::format(format, std::forward<Args>(args)...));
  }

  void parse_field(std::string_view key, element value) {
    if (key == "dtype") {
      once(has_dtype_, key);
      parse_dtype_field(value);
    } else if (key == "shape") {
      once(has_shape_, key);
      parse_shape(list(key, value));
    } else if (key == "data_offsets") {
      once(has_offsets_, key);
      parse_offsets(list(key, value));
    } else {
      throw fault("unknown field {}; the fields are dtype, shape and data_offsets", quote(key));
    }
  }

  void once(bool& seen, std::string_view key) const {
    if (seen) throw fault("the field {} stands there twice", key);
    seen = true;
  }

  void require(bool seen, std::string_view key) const {
    if (!seen) throw fault("the field {} is missing", key);
  }

  void parse_dtype_field(element value) {
    std::string_view text;
    if (value.get(text)) throw fault("dtype is {}, but a string is needed", kind_of(value));
    auto dtype = weightloom::parse_dtype(text);
    if (!dtype) throw fault("unknown dtype {}", quote(text));
    tensor_.dtype = *dtype;
  }

  simdjson::dom::array list(std::string_view key, element value) const {
    simdjson::dom::array items;
    if (value.get(items)) throw fault("{} is {}, but a list is needed", key, kind_of(value));
    return items;
  }

  int64_t integer(std::string_view key, element value) const {
    int64_t number = 0;
    if (value.get(number)) {
      if (value.is_uint64()) throw fault("{} holds a number of 2^63 or more", key);
      throw fault("{} holds {}, but integers are needed", key, kind_of(value));
    }
    if (number < 0) throw fault("{} holds {}, but 0 or more is needed", key, number);
    return number;
  }

  void parse_shape(simdjson::dom::array dims) {
    tensor_.shape.reserve(dims.size());
    for (element dim : dims) tensor_.shape.push_back(integer("shape", dim));
  }

  void parse_offsets(simdjson::dom::array items) {
    if (items.size() != 2) {
      throw fault("data_offsets holds {} numbers, but 2 are needed", items.size());
    }
    tensor_.begin_bytes = integer("data_offsets", items.at(0));
    tensor_.end_bytes = integer("data_offsets", items.at(1));
  }

  void check_size() const {
    int64_t begin = tensor_.begin_bytes;
    int64_t end = tensor_.end_bytes;
    if (end < begin) throw fault("data_offsets end at {}, before they begin at {}", end, begin);
    auto needed = checked_bytes(tensor_.dtype, tensor_.shape);
    if (needed && end - begin == *needed) return;
    auto type = fmt::format("{} {}", to_string(tensor_.dtype), to_string(tensor_.shape));
    if (needed) {
      throw fault("{} bytes at [{}, {}), but {} needs {}", end - begin, begin, end, type, *needed);
    }
    auto count = checked_elements(tensor_.shape);
    if (!count || *count > INT64_MAX / bits(tensor_.dtype)) {
      throw fault("{} is larger than 2^63 bits", type);
    }
    throw fault("{} is {} bits, which do not fill whole bytes", type, *count * bits(tensor_.dtype));
  }

  std::string_view name_;
  const Refusal& refusal_;
  HeaderTensor tensor_;
  bool has_dtype_ = false;
  bool has_shape_ = false;
  bool has_offsets_ = false;
};

void check_names_differ(std::span<const HeaderTensor> tensors, const Refusal& refusal) {
  NameTable names(tensors.size());
  auto name_at = [&](int32_t i) -> std::string_view {
    return tensors[static_cast<size_t>(i)].name;
  };
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (names.insert(tensors[i].name, static_cast<int32_t>(i), name_at)) {
      throw refusal.of_tensor(tensors[i].name, "the name stands in the header twice");
    }
  }
}

void sort_by_offset(std::vector<HeaderTensor>& tensors) {
  auto before = [](const HeaderTensor& a, const HeaderTensor& b) {
    return std::tie(a.begin_bytes, a.end_bytes, a.name) <
           std::tie(b.begin_bytes, b.end_bytes, b.name);
  };
  if (!std::is_sorted(tensors.begin(), tensors.end(), before)) {
    std::sort(tensors.begin(), tensors.end(), before);
  }
}

/// Sorted tensors must follow one another without gap. Returns where the last one ends.
int64_t check_no_hole_or_overlap(std::span<const HeaderTensor> tensors, const Refusal& refusal) {
  int64_t end = 0;
  for (const auto& tensor : tensors) {
    int64_t begin = tensor.begin_bytes;
    if (begin > end) {
      auto before = end == 0 ? fmt::format("the data section begins at 0")
                             : fmt::format("the tensor before it ends at {}", end);
      throw refusal.of_tensor(
          tensor.name, fmt::format("begins at {}, but {}: no tensor owns the {} bytes between",
                                   begin, before, begin - end));
    }
    if (begin < end) {
      throw refusal.of_tensor(
          tensor.name, fmt::format("bytes [{}, {}) overlap the tensor before it, which ends at {}",
                                   begin, tensor.end_bytes, end));
    }
    end = tensor.end_bytes;
  }
  return end;
}

void check_data_size(std::span<const HeaderTensor> tensors, int64_t needed, int64_t found,
                     const Refusal& refusal) {
  if (needed < found) {
    throw refusal.of_file(
        fmt::format("{} bytes after the last tensor: the tensors hold {} bytes, "
                    "the data section has {}",
                    found - needed, needed, found));
  }
  if (needed <= found) return;
  const auto& last = tensors.back();
  throw refusal.of_file(
      fmt::format("tensor {}: bytes [{}, {}) reach past the data section, which has {} bytes: {} "
                  "bytes are missing",
                  quote(last.name), last.begin_bytes, last.end_bytes, found, needed - found),
      "the file is truncated: fetch or write it again");
}

/// The length prefix, checked against the file before anything is allocated.
int64_t read_header_length(const File& file, int64_t file_bytes, const Refusal& refusal) {
  if (file_bytes < 8) {
    throw refusal.of_file(
        fmt::format("{} bytes, but a safetensors file has at least 8", file_bytes),
        "the file is truncated: fetch or write it again");
  }
  std::array<std::byte, 8> prefix{};
  file.read_at(prefix, 0);
  if (std::memcmp(prefix.data(), "version ", prefix.size()) == 0) {
    throw refusal.of_file("a Git LFS pointer, not the weights themselves",
                          "run `git lfs pull` in the folder");
  }
  auto length = std::bit_cast<uint64_t>(prefix);
  if (length > static_cast<uint64_t>(file_bytes - 8)) {
    throw refusal.of_file(
        fmt::format("the header length is {}, but only {} bytes follow it", length, file_bytes - 8),
        "the file is truncated or no safetensors file: fetch or write it again");
  }
  if (length > static_cast<uint64_t>(kMaxHeaderBytes)) {
    throw refusal.of_file(fmt::format("the header length is {}, but at most {} are allowed", length,
                                      kMaxHeaderBytes));
  }
  return static_cast<int64_t>(length);
}

}  // namespace

Header Header::parse(std::string json, int64_t file_bytes, std::string_view file) {
  Header header = parse_alone(std::move(json), file);
  check_data_size(header.tensors_, header.data_bytes_, file_bytes - header.data_begin_bytes(),
                  Refusal(file));
  return header;
}

Header Header::parse_alone(std::string json, std::string_view file) {
  const Refusal refusal(file);
  if (!json.starts_with('{')) {
    throw refusal.of_file(
        json.empty() ? std::string("the header is empty, but '{' is needed")
                     : fmt::format("the header begins with byte 0x{:02x}, but '{{' is needed",
                                   static_cast<unsigned char>(json.front())));
  }
  Header header;
  header.json_ = std::move(json);
  simdjson::dom::parser parser;
  auto entries = parse_json_object(parser, header.json_, file);
  header.tensors_.reserve(entries.size());
  bool has_metadata = false;
  for (auto [name, value] : entries) {
    if (name == "__metadata__") {
      if (has_metadata) throw refusal.of_file("__metadata__ stands in the header twice");
      has_metadata = true;
      header.metadata_ = parse_metadata(value, refusal);
      continue;
    }
    if (name.find('\0') != std::string_view::npos) {
      throw refusal.of_tensor(name, "the name holds a NUL, which C strings cannot show");
    }
    header.tensors_.push_back(EntryParser(name, refusal).parse(value));
  }
  check_names_differ(header.tensors_, refusal);
  sort_by_offset(header.tensors_);
  header.data_bytes_ = check_no_hole_or_overlap(header.tensors_, refusal);
  return header;
}

Header Header::read(const File& file, std::string_view name) {
  const Refusal refusal(name);
  FileStatus status = file.status();
  if (status.kind != FileKind::file) throw refusal.of_file("not a regular file");
  auto length = static_cast<size_t>(read_header_length(file, status.size_bytes, refusal));
  std::string json;
  json.reserve(length + kSpareBytes);  // or the parser would copy it
  json.resize(length);
  file.read_at(std::as_writable_bytes(std::span(json)), 8);
  return parse(std::move(json), status.size_bytes, name);
}

std::string Header::bytes() const {
  auto length = std::bit_cast<std::array<char, 8>>(uint64_t{json_.size()});
  std::string result(length.data(), length.size());
  result += json_;
  return result;
}

}  // namespace weightloom
