// How the JSON form names operations: a value that says which names there are and how each is
// made, so that a program's own operations can stand in mapping files.
//
//   OperationMakers makers = OperationMakers::built_in();
//   makers.add("Reverse", {{"dim"}, [](const OperationParameters& p) {
//     return std::make_shared<const Reverse>(p.dim("dim")); }});
//   Mapping mine = Mapping::parse(text, "mine.json", makers);
//
// Thread safety: values.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weightloom/base/export.h"
#include "weightloom/mapping/operation.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// The JSON object of one operation, read key by key. Every look-up throws mapping, naming file
/// and place, if the key is absent or of another kind. Borrows from the text being parsed.
class OperationParameters {
 public:
  struct Json;
  /// Of the room's own use.
  explicit OperationParameters(const Json& json) : json_(json) {}

  /// True if the key is there.
  bool has(const std::string& key) const;
  /// A whole number.
  int64_t integer(const std::string& key) const;
  /// A whole number of 0 or more that int holds.
  int dim(const std::string& key) const;
  /// true or false; `otherwise` if absent.
  bool flag(const std::string& key, bool otherwise) const;
  /// A string.
  std::string text(const std::string& key) const;
  /// A list of strings; empty if absent.
  std::vector<std::string> texts(const std::string& key) const;
  /// A number, or what config.json is to say.
  ConfigNumber number(const std::string& key) const;
  /// A list of them; empty if absent.
  std::vector<ConfigNumber> numbers(const std::string& key) const;
  /// An object of them, sorted by name; empty if the key is absent or no object.
  std::vector<std::pair<std::string, ConfigNumber>> named_numbers(const std::string& key) const;
  /// Throws mapping: file, place, `why`.
  [[noreturn]] void refuse(const std::string& why) const;

 private:
  const Json& json_;
};

/// The parameters that an operation knows besides "op" (others are refused), and its making.
struct OperationMaker {
  std::vector<std::string> parameters;                           ///< names of its keys
  std::function<OperationPtr(const OperationParameters&)> make;  ///< from the object in the file
};

/// The operations that mapping files may name; see the top of this file.
class OperationMakers {
 public:
  /// None.
  OperationMakers() = default;
  /// Those of docs/mappings.md.
  static const OperationMakers& built_in();

  /// Errors: mapping if the name is taken.
  void add(std::string name, OperationMaker maker);
  /// Null if there is none of that name.
  const OperationMaker* find(std::string_view name) const noexcept;
  /// Sorted.
  std::vector<std::string> names() const;

 private:
  std::map<std::string, OperationMaker, std::less<>> makers_;
};

}  // namespace weightloom
