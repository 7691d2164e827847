#include "weightloom/execute/checksums.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "weightloom/base/file.h"

namespace weightloom {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kFormat = "weightloom.checksums/1";
constexpr std::string_view kAlgorithm = "xxh3-128";

Error wrong(std::string_view file, std::string_view fault) {
  return Error(ErrorCode::format, fmt::format("{}: {}", file, fault),
               "remove the file, or make it anew: convert with --checksums");
}

/// Refuses a key that stands twice in its object, which nlohmann::json lets pass.
class KeyCheck {
 public:
  explicit KeyCheck(std::string_view file) : file_(file) {}

  bool operator()(int depth, Json::parse_event_t event, Json& value) {
    const auto level = static_cast<size_t>(depth);
    if (event == Json::parse_event_t::object_start) {
      seen_.resize(std::max(seen_.size(), level + 2));
      seen_[level + 1].clear();
    }
    if (event == Json::parse_event_t::key &&
        !seen_[level].insert(value.get<std::string>()).second) {
      throw wrong(file_, fmt::format("'{}' stands there twice", value.get<std::string>()));
    }
    return true;
  }

 private:
  std::string_view file_;
  std::vector<std::set<std::string>> seen_;
};

Json parse_json(std::string_view text, std::string_view file) {
  try {
    return Json::parse(text, KeyCheck(file));
  } catch (const Json::exception& error) {
    throw wrong(file, fmt::format("is no JSON: {}", error.what()));
  }
}

std::string text_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found == json.end() || !found->is_string() ? "" : found->get<std::string>();
}

bool is_digest(std::string_view text) {
  return text.size() == 32 && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

Finding fault(std::string code, const std::string& tensor, std::string message) {
  return {Severity::error, std::move(code), tensor, std::string(kChecksumsName),
          std::move(message)};
}

}  // namespace

std::string format_checksums(const Checksums& checksums) {
  nlohmann::ordered_json json;
  json["format"] = kFormat;
  json["algorithm"] = kAlgorithm;
  json["tensors"] = nlohmann::ordered_json::object();
  for (const auto& [tensor, digest] : checksums) json["tensors"][tensor] = digest;
  return json.dump(2) + "\n";
}

Checksums parse_checksums(std::string_view json, std::string_view file) {
  const Json parsed = parse_json(json, file);
  if (!parsed.is_object() || text_at(parsed, "format") != kFormat) {
    throw wrong(file, fmt::format("is not of the format '{}'", kFormat));
  }
  if (text_at(parsed, "algorithm") != kAlgorithm) {
    throw wrong(file, fmt::format("the algorithm is '{}', but only '{}' is known",
                                  text_at(parsed, "algorithm"), kAlgorithm));
  }
  const auto tensors = parsed.find("tensors");
  if (tensors == parsed.end() || !tensors->is_object()) {
    throw wrong(file, "'tensors' is no object");
  }
  Checksums checksums;
  for (const auto& [name, digest] : tensors->items()) {
    if (!digest.is_string() || !is_digest(digest.get<std::string>())) {
      throw wrong(file,
                  fmt::format("the digest of tensor '{}' is not 32 hexadecimal digits", name));
    }
    checksums[name] = digest.get<std::string>();
  }
  return checksums;
}

std::optional<Checksums> read_checksums(const Syscalls& calls, const Checkpoint& checkpoint) {
  if (checkpoint.is_single_file()) return std::nullopt;
  const std::string path = join_path(checkpoint.folder(), kChecksumsName);
  if (!status_of(calls, path)) return std::nullopt;
  return parse_checksums(read_whole_file(calls, path), path);
}

std::vector<Finding> compare_checksums(const Checksums& wanted, const Checkpoint& checkpoint,
                                       const std::vector<std::string>& found) {
  std::vector<Finding> findings;
  for (size_t i = 0; i < found.size(); ++i) {
    const std::string& name = checkpoint.tensors()[i].name;
    const auto entry = wanted.find(name);
    if (entry == wanted.end()) {
      findings.push_back(
          fault("checksum_missing", name,
                fmt::format("tensor '{}' has no entry in {}", name, kChecksumsName)));
    } else if (entry->second != found[i]) {
      findings.push_back(fault("checksum_mismatch", name,
                               fmt::format("tensor '{}' has the digest {}, but {} says {}", name,
                                           found[i], kChecksumsName, entry->second)));
    }
  }
  for (const auto& [name, digest] : wanted) {
    if (checkpoint.find(name) != nullptr) continue;
    findings.push_back(fault("checksum_unknown", name,
                             fmt::format("{} has an entry for '{}', but there is no such tensor",
                                         kChecksumsName, name)));
  }
  return findings;
}

}  // namespace weightloom
