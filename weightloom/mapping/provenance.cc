#include "weightloom/mapping/provenance.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightloom/base/error.h"
#include "weightloom/base/quote.h"
#include "weightloom/codec/cast.h"
#include "weightloom/mapping/operation_internal.h"
#include "weightloom/mapping/strict_json_internal.h"
#include "weightloom/safetensors/checkpoint.h"

namespace weightloom {
namespace {

using internal::StrictObject;
using internal::to_json_string;
using nlohmann::json;

constexpr std::string_view kFormat = "weightloom.provenance/1";

Mapping read_mapping(const StrictObject& record, const OperationMakers& operations) {
  Mapping mapping;
  try {
    mapping = Mapping::parse(record.at("mapping").dump(), record.where(), operations);
  } catch (const Error& error) {
    throw Error(ErrorCode::format, error.what());
  }
  if (mapping.hash() != record.text("mapping_hash")) {
    record.refuse(fmt::format("the mapping's hash is {}, but the record states {}", mapping.hash(),
                              record.text("mapping_hash")));
  }
  return mapping;
}

std::vector<int64_t> read_fired(const StrictObject& record, const Mapping& mapping) {
  auto fired = record.integers("fired");
  int64_t next = 0;
  for (const int64_t place : fired) {
    if (place < next || std::cmp_greater_equal(place, mapping.transforms().size())) {
      record.refuse(fmt::format("'fired' has {}, but needs ascending places in {} transforms",
                                place, mapping.transforms().size()));
    }
    next = place + 1;
  }
  return fired;
}

/// The way back writes files of these names.
void check_file_name(const StrictObject& record, const std::string& name) {
  const std::string_view fault = fault_of_file_name(name);
  if (!fault.empty()) record.refuse(fmt::format("the file name {} is {}", quote(name), fault));
}

std::vector<OriginalFile> read_files(const StrictObject& record) {
  std::vector<OriginalFile> files;
  for (const json& item : record.list("files")) {
    const StrictObject file(item, fmt::format("{}: files[{}]", record.where(), files.size()),
                            ErrorCode::format, {"name", "header"});
    check_file_name(record, file.text("name"));
    const auto same = std::ranges::find(files, file.text("name"), &OriginalFile::name);
    if (same != files.end()) {
      record.refuse(fmt::format("'files' has {} twice", quote(file.text("name"))));
    }
    files.push_back({file.text("name"), file.text("header")});
  }
  return files;
}

std::vector<CastRule> read_casts(const StrictObject& record) {
  std::vector<CastRule> casts;
  if (!record.has("casts")) return casts;
  for (const json& item : record.list("casts")) {
    const StrictObject cast(item, fmt::format("{}: casts[{}]", record.where(), casts.size()),
                            ErrorCode::format, {"dtype", "keep_dtype"});
    const auto dtype = parse_dtype(cast.text("dtype"));
    if (!dtype || !is_castable(*dtype)) {
      cast.refuse(fmt::format("'dtype' is {}, but needs to be BF16, F16, F32 or F64",
                              quote(cast.text("dtype"))));
    }
    casts.push_back({*dtype, cast.texts("keep_dtype")});
  }
  return casts;
}

std::string to_json(const CastRule& cast) {
  std::vector<std::string> keep;
  for (const std::string& glob : cast.keep) keep.push_back(to_json_string(glob));
  return fmt::format(R"({{"dtype": "{}", "keep_dtype": [{}]}})", to_string(cast.dtype),
                     fmt::join(keep, ", "));
}

std::string to_json(const OriginalFile& file) {
  return fmt::format(R"({{"name": {}, "header": {}}})", to_json_string(file.name),
                     to_json_string(file.header_json));
}

std::string to_json(const ModelNames& names) {
  std::vector<std::string> unknown;
  for (const std::string& name : names.unknown) unknown.push_back(to_json_string(name));
  return fmt::format(
      "\"model_names\": {{\"base_model_prefix\": {}, \"unknown\": [{}], \"edited\": {}}},\n",
      to_json_string(names.base_model_prefix), fmt::join(unknown, ", "), names.edited);
}

bool is_layout(std::string_view word) {
  return word == "hub" || word == "runtime" || word == "unknown";
}

}  // namespace

Provenance parse_provenance(std::string_view json_text, std::string_view file,
                            const OperationMakers& operations) {
  const json root = internal::parse_json_object(json_text, file, ErrorCode::format);
  const StrictObject record(root, std::string(file), ErrorCode::format,
                            {"format", "layout", "mapping", "mapping_hash", "config", "fired",
                             "files", "index", "casts", "model_names", "decoded"});
  if (record.text("format") != kFormat) {
    record.refuse(
        fmt::format("format is '{}', but needs to be '{}'", record.text("format"), kFormat));
  }
  Provenance provenance;
  provenance.layout = record.text("layout");
  if (!is_layout(provenance.layout)) {
    record.refuse(fmt::format("layout is '{}', but needs to be 'hub', 'runtime' or 'unknown'",
                              provenance.layout));
  }
  provenance.mapping = read_mapping(record, operations);
  provenance.fired = read_fired(record, provenance.mapping);
  provenance.config_json = record.text("config");
  if (record.has("model_names")) {
    const StrictObject names(record.at("model_names"), std::string(file) + ": model_names",
                             ErrorCode::format, {"base_model_prefix", "unknown", "edited"});
    provenance.model_names = ModelNames{names.text("base_model_prefix"), names.texts("unknown"),
                                        names.integer("edited")};
  }
  provenance.files = read_files(record);
  if (record.has("index")) {
    const StrictObject index(record.at("index"), std::string(file) + ": index", ErrorCode::format,
                             {"name", "text"});
    check_file_name(record, index.text("name"));
    if (!index.text("name").ends_with(".safetensors.index.json")) {
      record.refuse(fmt::format("the index name {} does not end in .safetensors.index.json",
                                quote(index.text("name"))));
    }
    provenance.index.emplace(index.text("name"), index.text("text"));
  }
  provenance.casts = read_casts(record);
  if (record.has("decoded")) provenance.decoded = record.texts("decoded");
  return provenance;
}

std::string format_provenance(const Provenance& provenance) {
  std::vector<std::string> files;
  for (const auto& file : provenance.files) files.push_back(to_json(file));
  std::string index;
  if (provenance.index) {
    index = fmt::format(",\n\"index\": {{\"name\": {}, \"text\": {}}}",
                        to_json_string(provenance.index->first),
                        to_json_string(provenance.index->second));
  }
  std::vector<std::string> casts;
  for (const CastRule& cast : provenance.casts) casts.push_back(to_json(cast));
  const std::string cast_list =
      casts.empty() ? "" : fmt::format(",\n\"casts\": [{}]", fmt::join(casts, ", "));
  std::vector<std::string> decoded;
  for (const std::string& name : provenance.decoded) decoded.push_back(to_json_string(name));
  const std::string decoded_list =
      decoded.empty() ? "" : fmt::format(",\n\"decoded\": [{}]", fmt::join(decoded, ", "));
  const std::string model_names =
      provenance.model_names ? to_json(*provenance.model_names) : std::string();
  return fmt::format(
      "{{\"format\": \"{}\",\n\"layout\": {},\n\"mapping\": {},\n\"mapping_hash\": \"{}\",\n"
      "\"config\": {},\n{}\"fired\": [{}],\n\"files\": [{}]{}{}{}}}\n",
      kFormat, to_json_string(provenance.layout), provenance.mapping.to_json(),
      provenance.mapping.hash(), to_json_string(provenance.config_json), model_names,
      fmt::join(provenance.fired, ", "), fmt::join(files, ",\n  "), index, cast_list, decoded_list);
}

}  // namespace weightloom
